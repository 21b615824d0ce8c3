//! The types of kolo.h. Enumerators cross the interface as plain integers, because an integer that
//! is no enumerator must be an error and not undefined behaviour; the `...Arg` names below are
//! those integers, and cbindgen writes the name of the enumeration in their place.

use kolo_core::base::{Code, Error, Result};
use kolo_core::dtype::DataType;
use std::ffi::{c_char, c_int, c_uint, c_void};

/// Version of this header, first part: a new one may break programs.
pub const KOLO_MAJOR: c_int = 0;
/// Second part: new functions.
pub const KOLO_MINOR: c_int = 1;
/// Third part: corrections.
pub const KOLO_PATCH: c_int = 0;

/// Bytes of a koloUniqueId.
pub const KOLO_UNIQUE_ID_BYTES: usize = 128;

/// The `color` of a rank that wants no new communicator from koloCommSplit.
pub const KOLO_SPLIT_NOCOLOR: c_int = -1;

/// The entry of `devlist` (koloCommInitAll) that means host memory.
pub const KOLO_DEVICE_HOST: c_int = -1;

/// The mark in a koloConfig_t that KOLO_CONFIG_INITIALIZER filled.
pub const KOLO_CONFIG_MAGIC: c_uint = 0x6b6f6c6f;

/// The version of koloMpiTable that this header describes.
pub const KOLO_MPI_TABLE_VERSION: c_uint = 1;

/// Result of a call. Every failure also leaves a sentence for koloGetLastError.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum koloResult_t {
    /// The call did what it says.
    koloSuccess = 0,
    /// A CUDA call failed.
    koloUnhandledCudaError = 1,
    /// The operating system refused something.
    koloSystemError = 2,
    /// A fault in kolo itself: please report it.
    koloInternalError = 3,
    /// An argument has a value that no call accepts. Nothing was touched.
    koloInvalidArgument = 4,
    /// The call is not allowed now or not in this combination. Nothing was touched.
    koloInvalidUsage = 5,
    /// Another rank failed, aborted or disappeared.
    koloRemoteError = 6,
    /// An asynchronous operation has not ended yet (koloStreamQuery).
    koloInProgress = 7,
    /// A limit set by KOLO_TIMEOUT ran out.
    koloTimeout = 8,
}

/// Type of an element.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum koloDataType_t {
    /// Signed, 1 byte.
    koloInt8 = 0,
    /// Unsigned, 1 byte.
    koloUint8 = 1,
    /// Signed, 4 bytes.
    koloInt32 = 2,
    /// Unsigned, 4 bytes.
    koloUint32 = 3,
    /// Signed, 8 bytes.
    koloInt64 = 4,
    /// Unsigned, 8 bytes.
    koloUint64 = 5,
    /// IEEE 754 half precision, 2 bytes.
    koloFloat16 = 6,
    /// IEEE 754 single precision, 4 bytes.
    koloFloat32 = 7,
    /// IEEE 754 double precision, 8 bytes.
    koloFloat64 = 8,
    /// The upper half of a koloFloat32, 2 bytes.
    koloBfloat16 = 9,
    /// 1 byte: 4 bits of exponent, 3 of mantissa, no infinity.
    koloFloat8e4m3 = 10,
    /// 1 byte: 5 bits of exponent, 2 of mantissa.
    koloFloat8e5m2 = 11,
    /// Two koloFloat32: real and imaginary part (float _Complex), 8 bytes.
    koloComplex64 = 16,
    /// Two koloFloat64: real and imaginary part (double _Complex), 16 bytes.
    koloComplex128 = 17,
    /// Truth in 1 byte: 0 is false, everything else true; results are 0 and 1.
    koloLogical8 = 20,
    /// Truth in 2 bytes.
    koloLogical16 = 21,
    /// Truth in 4 bytes.
    koloLogical32 = 22,
    /// Truth in 8 bytes.
    koloLogical64 = 23,
    /// 1 byte without arithmetic; koloMax and koloMin take it as unsigned.
    koloByte = 26,
    /// A character of 1 byte, ordered as unsigned.
    koloCharacter = 27,
    /// struct { float value; int index; }, 8 bytes.
    koloFloatInt = 32,
    /// struct { double value; int index; }, 16 bytes with 4 of padding.
    koloDoubleInt = 33,
    /// struct { int value; int index; }, 8 bytes.
    koloIntInt = 34,
    /// struct { int64_t value; int index; }, 16 bytes with 4 of padding.
    koloLongInt = 35,
    /// Two koloFloat32: a value and an index, 8 bytes.
    koloFloatFloat = 36,
    /// Two koloFloat64: a value and an index, 16 bytes.
    koloDoubleDouble = 37,
}

/// Reduction. Which types each one combines: integers all but koloMinloc and koloMaxloc; floats
/// koloSum to koloAvg; complex numbers koloSum, koloProd and koloAvg; logicals koloLand, koloLor
/// and koloLxor; bytes and characters koloMax, koloMin, koloBand, koloBor and koloBxor; pairs
/// koloMinloc and koloMaxloc. koloRedOpCreatePreMulSum and koloRedOpCreateUser make further ones,
/// with larger numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum koloRedOp_t {
    /// Sum. Integers wrap around.
    koloSum = 0,
    /// Product. Integers wrap around.
    koloProd = 1,
    /// Largest element.
    koloMax = 2,
    /// Smallest element.
    koloMin = 3,
    /// The sum divided by the number of ranks.
    koloAvg = 4,
    /// The correctly rounded exact sum of real and complex numbers in single and double precision,
    /// in koloAllReduce and koloReduce: the same bits for every number of ranks, order and
    /// algorithm.
    koloSumExact = 10,
    /// Bitwise and.
    koloBand = 16,
    /// Bitwise or.
    koloBor = 17,
    /// Bitwise exclusive or.
    koloBxor = 18,
    /// Are all true? The result is 0 or 1.
    koloLand = 20,
    /// Is one true?
    koloLor = 21,
    /// Is an odd number of them true?
    koloLxor = 22,
    /// The pair with the smallest value; of equal values the one with the smallest index. NaN wins.
    koloMinloc = 24,
    /// The pair with the largest value; of equal values the one with the smallest index. NaN wins.
    koloMaxloc = 25,
    /// The largest number an operation can have; no operation itself.
    koloMaxRedOp = 0x7fff_ffff,
}

/// When the scalar of koloRedOpCreatePreMulSum is read.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum koloScalarResidence_t {
    /// At every call that uses the operation: the scalar must live as long as the operation.
    koloScalarDevice = 0,
    /// Before koloRedOpCreatePreMulSum returns.
    koloScalarHostImmediate = 1,
}

/// The integer in the place of a koloResult_t.
pub type ResultArg = c_int;
/// The integer in the place of a koloDataType_t.
pub type DataTypeArg = c_int;
/// The integer in the place of a koloRedOp_t.
pub type RedOpArg = c_int;
/// The integer in the place of a koloScalarResidence_t.
pub type ScalarResidenceArg = c_int;

/// A reduction of the program's own: `inout[i] = in[i] op inout[i]` for `count` elements. `in`
/// comes first in the order of ranks. The buffers do not overlap. It is called only by threads that
/// are inside a kolo call, perhaps of another communicator; it must not call kolo.
pub type koloUserFunction_t = Option<
    unsafe extern "C-unwind" fn(
        in_: *const c_void,
        inout: *mut c_void,
        count: usize,
        datatype: DataTypeArg,
        context: *mut c_void,
    ),
>;

/// Writes `sentence`, in the words of another language, to `text`, where `bytes` bytes are.
pub type koloTranslate_t =
    Option<unsafe extern "C" fn(sentence: *const c_char, text: *mut c_char, bytes: usize)>;

/// The object behind a koloComm_t. A handle is a number, not an address.
pub struct koloComm {
    _opaque: [u8; 0],
}

/// The object behind a koloStream_t.
pub struct koloStream {
    _opaque: [u8; 0],
}

/// The object behind a koloRequest_t.
pub struct koloRequest {
    _opaque: [u8; 0],
}

/// The object behind a koloGraph_t.
pub struct koloGraph {
    _opaque: [u8; 0],
}

/// One rank's membership in a group of ranks. A wrong handle (NULL, garbage, destroyed) is
/// koloInvalidArgument in every call. One thread at a time may use a communicator; different
/// communicators are independent.
pub type koloComm_t = *mut koloComm;

/// An in-order queue of asynchronous operations on host memory. NULL in a call means: block until
/// the result is in place (inside a group: until the outermost koloGroupEnd). On a communicator of
/// a CUDA device it is a cudaStream_t or CUstream, cast to this type, and NULL is CUDA's default
/// stream: calls return when they are on the stream, whose own library waits for it.
pub type koloStream_t = *mut koloStream;

/// One asynchronous call (koloI...), until koloWait, koloTest or koloWaitAll has ended it. NULL:
/// none. It moves on whatever the program does meanwhile, as all that is on a stream: callers
/// that wait inside kolo drive it, and while none does a thread of kolo, which sleeps until
/// something can move. KOLO_PROGRESS=inline does without the thread: calls in flight then move only
/// while the program is inside kolo. So do, in any case, calls with an operation of
/// koloRedOpCreateUser, and all on a communicator that uses KOLO_NET=mpi below MPI_THREAD_MULTIPLE.
pub type koloRequest_t = *mut koloRequest;

/// The neighbours of this rank in koloNeighbor calls, on the communicator that it was made on.
pub type koloGraph_t = *mut koloGraph;

/// As peer of a message, and in lists of neighbours: nobody. Nothing is sent or received.
pub const KOLO_NO_RANK: c_int = -1;

/// Names a communicator to be: one rank makes it with koloGetUniqueId and hands it to the others
/// by any means. Holds an address and a secret.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct koloUniqueId {
    /// Opaque bytes.
    pub internal: [c_char; KOLO_UNIQUE_ID_BYTES],
}

/// Optional properties of a communicator. Start with KOLO_CONFIG_INITIALIZER and change what you
/// need; only the first `size` bytes are read, so a program built with an older header runs.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct koloConfig_t {
    /// Bytes of this structure as the caller knows it.
    pub size: usize,
    /// KOLO_CONFIG_MAGIC.
    pub magic: c_uint,
    /// KOLO_VERSION_CODE of the caller's header.
    pub version: c_uint,
    /// 1 (default): koloCommInitRankConfig returns when the communicator is ready. 0: it returns
    /// koloInProgress at once (see there). Calls that move data block or not by their stream alone.
    pub blocking: c_int,
    /// Least number of channels, at least 1.
    pub minChannels: c_int,
    /// Largest number of channels, at least 1.
    pub maxChannels: c_int,
    /// Name of the communicator in messages (UTF-8), or NULL.
    pub name: *const c_char,
    /// NULL, or an array of "KEY=VALUE" strings that ends with NULL: settings of this
    /// communicator, stronger than files and environment. Keys as `kolo info --config` shows them.
    pub settings: *const *const c_char,
    /// KOLO_DEVICE_HOST (default), or the number of a CUDA device among those that the process
    /// sees: buffers are then in memory of the device (docs/gpu.md). All ranks are on devices, or
    /// none. A device that cannot be used is refused on all ranks (koloInvalidUsage).
    pub device: c_int,
}

/// Bytes of an algorithm's or a protocol's name in koloRoute_t, with its zero.
pub const KOLO_ROUTE_WORD_BYTES: usize = 32;
/// Bytes of the sentence in koloRoute_t, with its zero.
pub const KOLO_ROUTE_TEXT_BYTES: usize = 192;

/// How a call would go (koloCommGetRoute).
#[repr(C)]
#[derive(Clone, Copy)]
pub struct koloRoute_t {
    /// Bytes of this structure as the caller knows it; afterwards how many were filled.
    pub size: usize,
    /// Name of the algorithm; empty where several launches do the call.
    pub algorithm: [c_char; KOLO_ROUTE_WORD_BYTES],
    /// Name of the protocol; empty as the algorithm's.
    pub protocol: [c_char; KOLO_ROUTE_WORD_BYTES],
    /// Channels that the algorithm uses; 0 where its name is empty.
    pub channels: c_int,
    /// 1 where ranks read each other's buffers instead, if all of these can be read.
    pub mayBeDirect: c_int,
    /// The time that is expected; negative where nobody knows.
    pub microseconds: f64,
    /// All of it in words, the form at the end.
    pub words: [c_char; KOLO_ROUTE_TEXT_BYTES],
}

/// How the ranks of koloCommInitTable meet: functions of a launcher (an MPI, for example). The
/// int results are 0 for success. bcast and allgather are called only by the thread that is inside
/// koloCommInitTable, idle only by threads that are inside a kolo call of the program.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct koloMpiTable {
    /// Bytes of this structure as the caller knows it.
    pub size: usize,
    /// KOLO_MPI_TABLE_VERSION.
    pub version: c_uint,
    /// First argument of the functions; belongs to kolo once the table is accepted.
    pub ctx: *mut c_void,
    /// This rank, 0 <= rank < nranks.
    pub rank: c_int,
    /// Number of ranks.
    pub nranks: c_int,
    /// `bytes` bytes at `buffer` go from `root` to all ranks.
    pub bcast: Option<
        unsafe extern "C" fn(
            ctx: *mut c_void,
            buffer: *mut c_void,
            bytes: usize,
            root: c_int,
        ) -> c_int,
    >,
    /// `bytes` bytes of every rank at `send` go to `recv` of all ranks, in rank order.
    pub allgather: Option<
        unsafe extern "C" fn(
            ctx: *mut c_void,
            send: *const c_void,
            bytes: usize,
            recv: *mut c_void,
        ) -> c_int,
    >,
    /// Called now and then while a thread waits inside kolo, so that the launcher's own messages
    /// move.
    pub idle: Option<unsafe extern "C" fn(ctx: *mut c_void) -> c_int>,
    /// Called once, when kolo needs `ctx` no more (also when the call fails, unless the table
    /// itself was refused).
    pub free: Option<unsafe extern "C" fn(ctx: *mut c_void) -> c_int>,
    /// NULL, or why no table could be made: the call fails with this sentence.
    pub problem: *const c_char,
    /// The koloResult_t that goes with `problem`.
    pub problemCode: c_int,
    /// NULL, or functions of libkolo_mpi that carry data between nodes.
    pub net: *const c_void,
    /// How many processes the launcher started, not only the ranks of this table; 0: not known.
    /// A world of one process where Slurm started several is refused.
    pub world: usize,
    /// The negative number that means "no rank" to the launcher, as MPI_PROC_NULL does to MPI;
    /// 0: none. KOLO_NO_RANK always does.
    pub noRank: c_int,
    /// NULL, or the name, valid until `free`, that the program has given these ranks, as
    /// MPI_Comm_set_name does: errors and the log have it.
    pub name: *const c_char,
}

impl From<Code> for koloResult_t {
    fn from(code: Code) -> koloResult_t {
        match code {
            Code::Success => koloResult_t::koloSuccess,
            Code::UnhandledCudaError => koloResult_t::koloUnhandledCudaError,
            Code::SystemError => koloResult_t::koloSystemError,
            Code::InternalError => koloResult_t::koloInternalError,
            Code::InvalidArgument => koloResult_t::koloInvalidArgument,
            Code::InvalidUsage => koloResult_t::koloInvalidUsage,
            Code::RemoteError => koloResult_t::koloRemoteError,
            Code::InProgress => koloResult_t::koloInProgress,
            Code::Timeout => koloResult_t::koloTimeout,
        }
    }
}

/// The data type with this number.
#[inline]
pub(crate) fn data_type(number: DataTypeArg) -> Result<DataType> {
    DataType::from_number(number).ok_or_else(|| {
        Error::argument(
            format!("{number} is no data type"),
            "give one of the koloDataType_t values of kolo.h",
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use kolo_core::dtype::ReduceOp;

    #[test]
    fn numbers_of_data_types_are_those_of_the_core() {
        use koloDataType_t::*;
        let all = [
            koloInt8,
            koloUint8,
            koloInt32,
            koloUint32,
            koloInt64,
            koloUint64,
            koloFloat16,
            koloFloat32,
            koloFloat64,
            koloBfloat16,
            koloFloat8e4m3,
            koloFloat8e5m2,
            koloComplex64,
            koloComplex128,
            koloLogical8,
            koloLogical16,
            koloLogical32,
            koloLogical64,
            koloByte,
            koloCharacter,
            koloFloatInt,
            koloDoubleInt,
            koloIntInt,
            koloLongInt,
            koloFloatFloat,
            koloDoubleDouble,
        ];
        assert_eq!(all.len(), DataType::ALL.len());
        for (this, core) in all.into_iter().zip(DataType::ALL) {
            assert_eq!(data_type(this as c_int).unwrap(), core);
            assert_eq!(format!("kolo{core:?}"), format!("{this:?}"));
        }
        for number in [-1, 12, 38, c_int::MAX, c_int::MIN] {
            assert_eq!(data_type(number).unwrap_err().code, Code::InvalidArgument);
        }
    }

    #[test]
    fn numbers_of_operations_are_those_of_the_core() {
        use koloRedOp_t::*;
        let all = [
            koloSum, koloProd, koloMax, koloMin, koloAvg, koloBand, koloBor, koloBxor, koloLand,
            koloLor, koloLxor, koloMinloc, koloMaxloc,
        ];
        let core = ReduceOp::ALL.into_iter().filter(|op| op.number().is_some());
        assert_eq!(core.clone().count(), all.len());
        for (this, core) in all.into_iter().zip(core) {
            assert_eq!(core.number(), Some(this as i32));
            assert_eq!(format!("kolo{core:?}"), format!("{this:?}"));
        }
    }

    #[test]
    fn numbers_of_results_are_those_of_the_core() {
        for number in 0..9 {
            let code = Code::from_number(number).unwrap();
            assert_eq!(koloResult_t::from(code) as i32, number);
        }
    }

    #[test]
    fn version_is_that_of_the_package() {
        let package = format!("{KOLO_MAJOR}.{KOLO_MINOR}.{KOLO_PATCH}");
        assert_eq!(package, env!("CARGO_PKG_VERSION"));
    }
}
