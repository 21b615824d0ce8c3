//! Each argument of a call in one line. An argument has one name in all calls that take it, so a
//! table by names is enough, with a row for a call that takes another thing by the name.

use super::header::CCall;

/// Names of arguments and their meaning; behind a call's name that of this call alone.
const MEANINGS: &[(&str, &str)] = &[
    ("asyncError", "Written: how the communicator is."),
    ("buff", "The buffer."),
    (
        "Bcast.buff",
        "The buffer: read on the root, written on the others.",
    ),
    (
        "IBcast.buff",
        "The buffer: read on the root, written on the others.",
    ),
    ("bytes", "Size of the memory in bytes."),
    ("call", "Name of the call without kolo, such as AllReduce."),
    (
        "color",
        "Ranks with the same color make a communicator; KOLO_SPLIT_NOCOLOR: in none.",
    ),
    ("comm", "The communicator."),
    ("CommInitMPI.comm", "The communicator of MPI."),
    ("CommInitMPIConfig.comm", "The communicator of MPI."),
    (
        "CommInitMPI_f.comm",
        "The communicator of MPI, as Fortran has it.",
    ),
    (
        "GetLastError.comm",
        "The communicator, or NULL: the last failure of this thread.",
    ),
    (
        "ReportError.comm",
        "The communicator that the failure concerns, or NULL.",
    ),
    (
        "DescribeError.comm",
        "The communicator that the failure concerns, or NULL.",
    ),
    (
        "DescribeError.call",
        "The call, as the other language names it.",
    ),
    ("DescribeError.what", "What happened, in words."),
    ("DescribeError.remedy", "What to do, in words."),
    ("DescribeError.text", "Written: the sentence."),
    ("DescribeError.bytes", "Bytes that may be written."),
    (
        "TranslateLog.translate",
        "Puts a sentence into other words.",
    ),
    (
        "commId",
        "What koloGetUniqueId of one rank has made, the same on all ranks.",
    ),
    ("comms", "Written: a handle for each rank, in rank order."),
    (
        "commute",
        "0: the order of the ranks matters; else it does not.",
    ),
    ("config", "Settings of the communicator."),
    ("context", "Handed to the function with each call."),
    ("count", "Number of elements."),
    ("CommCount.count", "Written: number of ranks."),
    ("WaitAll.count", "Number of requests."),
    ("AllToAll.count", "Number of elements of each block."),
    ("IAllToAll.count", "Number of elements of each block."),
    (
        "NeighborAllGather.count",
        "Number of elements of each block.",
    ),
    (
        "INeighborAllGather.count",
        "Number of elements of each block.",
    ),
    (
        "NeighborAllToAll.count",
        "Number of elements of each block.",
    ),
    (
        "INeighborAllToAll.count",
        "Number of elements of each block.",
    ),
    ("datatype", "Type of an element."),
    ("dest", "The rank to send to, or KOLO_NO_RANK."),
    (
        "destinations",
        "The ranks to send to, block by block; KOLO_NO_RANK for a missing one.",
    ),
    ("device", "Number of the CUDA device, from 0 on."),
    ("devlist", "NULL, or a device for each rank."),
    ("dims", "Number of ranks along each dimension."),
    (
        "displs",
        "Where each block begins, in elements; NULL: one behind the other.",
    ),
    ("done", "Written: 1 if the call has ended, else 0."),
    ("extents", "Number of elements along each dimension."),
    ("first", "The first element."),
    (
        "function",
        "The function that combines two arrays of elements.",
    ),
    ("graph", "The graph."),
    ("GraphCreate.graph", "Written: the graph."),
    ("CartCreate.graph", "Written: the graph."),
    ("handle", "The registration."),
    ("CommRegister.handle", "Written: the registration."),
    ("indegree", "Number of blocks that come in."),
    (
        "GraphDegrees.indegree",
        "Written: number of blocks that come in.",
    ),
    ("is_said", "The function that is asked."),
    ("key", "Orders the ranks of the new communicator."),
    ("GetSetting.key", "Name of the setting, such as warn_after."),
    ("value", "Written: the value as text, with its zero byte."),
    ("local", "The terms of this rank."),
    (
        "mask",
        "A byte for each term, which counts if that is not zero.",
    ),
    (
        "SumExactArray.mask",
        "NULL, or an entry for each element, which counts if that is not zero.",
    ),
    ("maskbytes", "Size of an entry of the mask in bytes."),
    (
        "maskstrides",
        "Bytes from one entry of the mask to the next, along each dimension.",
    ),
    ("ndev", "Number of ranks."),
    ("ndims", "Number of dimensions."),
    ("newcomm", "Written: the new communicator."),
    ("nranks", "Number of ranks."),
    ("op", "The operation."),
    ("RedOpCreatePreMulSum.op", "Written: the operation."),
    ("RedOpCreateUser.op", "Written: the operation."),
    ("RedOpCreateUserFor.op", "Written: the operation."),
    ("outdegree", "Number of blocks that go out."),
    (
        "GraphDegrees.outdegree",
        "Written: number of blocks that go out.",
    ),
    ("parts", "Numbers of an element: 1, or 2 for complex ones."),
    ("peer", "The rank at the other end, or KOLO_NO_RANK."),
    (
        "periods",
        "For each dimension whether its ends are neighbours: 0 or not.",
    ),
    ("ptr", "The memory, or NULL."),
    ("MemAlloc.ptr", "Written: the address of the memory."),
    ("MemAllocDevice.ptr", "Written: the address of the memory."),
    ("rank", "This rank, from 0 on."),
    ("CommUserRank.rank", "Written: this rank."),
    ("SumExactArray.rank", "Number of dimensions."),
    (
        "rdispls",
        "Where each block to receive begins, in elements; NULL: one behind the other.",
    ),
    ("recvbuff", "Written: the result, or what is received."),
    ("recvcount", "Number of elements that this rank receives."),
    ("recvcounts", "Number of elements of each block to receive."),
    ("request", "Written: the request, for koloWait."),
    ("Wait.request", "The request; NULL afterwards."),
    ("Test.request", "The request; NULL once the call has ended."),
    ("requests", "The requests; NULL afterwards."),
    ("residence", "When the scalar is read."),
    ("result", "Written: the sum."),
    ("GetErrorString.result", "Result of a call."),
    ("ReportError.result", "Result of the call that failed."),
    ("root", "The rank that gives or gets the data."),
    ("route", "Written: which way the call goes."),
    (
        "scalar",
        "What the elements of this rank are multiplied by.",
    ),
    (
        "sdispls",
        "Where each block to send begins, in elements; NULL: one behind the other.",
    ),
    ("sendbuff", "The data of this rank."),
    ("sendcount", "Number of elements that this rank sends."),
    ("sendcounts", "Number of elements of each block to send."),
    ("sentence", "What happened, in words."),
    ("size", "Size of the buffer in bytes."),
    ("source", "The rank to receive from, or KOLO_NO_RANK."),
    (
        "sources",
        "The ranks to receive from, block by block; KOLO_NO_RANK for a missing one.",
    ),
    (
        "stream",
        "NULL: the call blocks; else the stream on which it is begun.",
    ),
    ("StreamCreate.stream", "Written: the stream."),
    ("StreamDestroy.stream", "The stream."),
    ("StreamQuery.stream", "The stream."),
    ("StreamSynchronize.stream", "The stream."),
    (
        "strides",
        "Bytes from one element to the next, along each dimension; NULL: packed.",
    ),
    ("table", "Functions by which the ranks meet."),
    (
        "uniqueId",
        "Written: where the ranks meet, to be handed to all of them.",
    ),
    ("version", "Written: the version as a number."),
];

/// The names of the arguments of a call, in order.
pub fn names(call: &CCall) -> Vec<String> {
    let inside = call.lines.split_once('(').map_or("", |(_, rest)| rest);
    let inside = inside.trim_end_matches([';', ')', '\n']);
    let name = |argument: &str| {
        let name = match argument.split_once("(*") {
            Some((_, rest)) => rest.split(')').next(),
            None => argument.trim().rsplit([' ', '*']).next(),
        };
        name.unwrap_or_default().to_string()
    };
    let names = inside.split(',').map(name);
    names
        .filter(|name| name != "void" && !name.is_empty())
        .collect()
}

/// The line of an argument of a call.
pub fn meaning(call: &CCall, name: &str) -> Option<&'static str> {
    let own = format!("{}.{name}", call.name.trim_start_matches("kolo"));
    let of = |key: &str| MEANINGS.iter().find(|(known, _)| *known == key);
    of(&own).or_else(|| of(name)).map(|(_, meaning)| *meaning)
}

#[cfg(test)]
mod tests {
    use super::super::header::CHeader;
    use super::*;

    const KOLO_H: &str = include_str!("../../../../bindings/c/include/kolo.h");
    const KOLO_MPI_H: &str = include_str!("../../../../bindings/mpi/kolo_mpi.h");

    #[test]
    fn every_argument_has_its_line_and_no_line_is_left() {
        let mut calls = CHeader::parse("kolo.h", KOLO_H).calls;
        calls.extend(CHeader::parse("kolo_mpi.h", KOLO_MPI_H).calls);
        let mut used = Vec::new();
        for call in &calls {
            // Counted in another way: a comma separates two of them.
            let commas = call.lines.matches(',').count();
            let names = names(call);
            assert!(
                names.len() == commas + 1 || call.lines.contains("(void)"),
                "{}",
                call.name
            );
            for name in names {
                let meaning = meaning(call, &name);
                let meaning = meaning.unwrap_or_else(|| panic!("{name} of {}", call.name));
                used.push(meaning);
            }
        }
        assert!(used.len() > 300, "{}", used.len());
        for (name, meaning) in MEANINGS {
            assert!(used.contains(meaning), "{name} is of no call");
            assert!(meaning.ends_with('.'), "{name}");
        }
    }
}
