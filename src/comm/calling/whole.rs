//! Exact sums that travel whole: how many of them do, and in how many bytes.

use super::call::Call;
use super::summable::part_type;
use crate::dtype::DataType;
use crate::dtype::exact::wire::Format;

/// Sums of up to this many bytes of limbs travel whole: 8 doubles or 45 floats on 8 ranks.
const WHOLE_BYTES: usize = 2560;

/// How the elements of a call travel.
pub(super) fn format(dtype: DataType, nranks: u32) -> Format {
    match dtype {
        DataType::Float32 => Format::of::<f32>(nranks),
        _ => Format::of::<f64>(nranks),
    }
}

/// Most sums that travel whole: the same number on all ranks.
pub(in crate::comm) fn most_whole(format: &Format) -> usize {
    (WHOLE_BYTES / (8 * format.words())).max(1)
}

/// Bytes of the sums of a call among `nranks` ranks if they travel whole, else 0.
pub(super) fn whole_bytes(call: &Call, nranks: u32) -> usize {
    let (dtype, parts) = part_type(call.dtype).unwrap_or((call.dtype, 1));
    let (count, format) = (call.count.saturating_mul(parts), format(dtype, nranks));
    if count > most_whole(&format) {
        return 0;
    }
    count * format.words() * size_of::<i64>()
}
