//! Calls of two ranks that differ: in what, in a sentence, and what to do about it.

use crate::comm::calling::call::{Collective, describe};
use crate::dtype::DataType;
use crate::wire::signature::{Fields, Signature};

/// In what two calls differ, behind the sentence that names both; and the remedy. `mine` is that of
/// a rank that receives, where both are messages.
pub(super) fn reason(
    (rank, mine): (u32, Signature),
    (peer, theirs): (u32, Signature),
) -> (String, &'static str) {
    let (one, other) = (mine.unpack(), theirs.unpack());
    let same = one.collective == other.collective;
    if same && has_root(one) && one.root != other.root {
        return (
            format!(
                ": they name different roots, {} on rank {rank} and {} on rank {peer}",
                one.root, other.root
            ),
            "give all ranks of the call the same root",
        );
    }
    if is_message(one) && is_message(other) && (one.count, one.dtype) != (other.count, other.dtype)
    {
        let why = match (bytes(one), bytes(other)) {
            (Some(one), Some(other)) if one != other => {
                format!(": {other} bytes are sent, and {one} received")
            }
            _ => ": the types differ".into(),
        };
        return (
            why,
            "let the receiver ask for as many elements of that type as are sent: unlike MPI, kolo \
             takes no message that is shorter than the receiver has asked for",
        );
    }
    (
        String::new(),
        "make all ranks call the same operations with the same arguments in the same order",
    )
}

/// Both calls in words: of messages, who receives and who sends.
pub(super) fn both(mine: Signature, theirs: Signature) -> [String; 2] {
    let calls = [mine, theirs].map(describe);
    match [mine, theirs]
        .map(Signature::unpack)
        .iter()
        .all(|it| is_message(*it))
    {
        true => {
            let named = |text: &str, name| text.replacen("Send/Recv", name, 1);
            [named(&calls[0], "Recv"), named(&calls[1], "Send")]
        }
        false => calls,
    }
}

fn collective(fields: Fields) -> Option<Collective> {
    let all = Collective::ALL.into_iter();
    { all }.find(|it| *it as u8 == fields.collective)
}

fn has_root(fields: Fields) -> bool {
    collective(fields).is_some_and(Collective::has_root)
}

fn is_message(fields: Fields) -> bool {
    collective(fields).is_some_and(Collective::is_point_to_point)
}

fn bytes(fields: Fields) -> Option<u64> {
    let dtype = DataType::from_index(usize::from(fields.dtype))?;
    fields.count.checked_mul(dtype.size_bytes() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signature(collective: Collective, root: u32, count: u64) -> Signature {
        Signature::pack(Fields {
            collective: collective as u8,
            dtype: DataType::Float64 as u8,
            op: 0,
            root,
            count,
        })
    }

    #[test]
    fn roots_and_sizes_are_named() {
        let roots = [2, 0].map(|root| signature(Collective::Gather, root, 4));
        let (why, remedy) = reason((1, roots[0]), (3, roots[1]));
        assert_eq!(
            why,
            ": they name different roots, 2 on rank 1 and 0 on rank 3"
        );
        assert!(remedy.contains("same root"));
        let sizes = [8, 16].map(|count| signature(Collective::Send, 0, count));
        let (why, remedy) = reason((1, sizes[0]), (3, sizes[1]));
        assert_eq!(why, ": 128 bytes are sent, and 64 received");
        assert!(remedy.contains("as many elements"));
        let [mine, theirs] = both(sizes[0], sizes[1]);
        assert_eq!(
            (mine.as_str(), theirs.as_str()),
            ("Recv of 8 double", "Send of 16 double")
        );
        let others = [Collective::Gather, Collective::Scatter].map(|it| signature(it, 0, 4));
        let (why, remedy) = reason((1, others[0]), (3, others[1]));
        assert!(why.is_empty() && remedy.contains("same operations"));
    }
}
