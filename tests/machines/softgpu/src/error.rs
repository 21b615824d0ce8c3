//! Result codes of the driver, by number, name and sentence.

/// Code that a call of the driver returns when it fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Code(pub i32);

/// Answer of a call: nothing, or a code.
pub type Answer<T = ()> = Result<T, Code>;

macro_rules! codes {
    ($($name:ident = $number:literal $text:literal;)*) => {
        impl Code {
            $(
                #[allow(dead_code, reason = "programs ask for the names of all")]
                pub const $name: Code = Code($number);
            )*
        }

        /// Number, name and sentence; both texts end with a zero.
        const CODES: &[(i32, &str, &str)] = &[
            $(($number, concat!("CUDA_ERROR_", stringify!($name), "\0"), concat!($text, "\0"))),*
        ];
    };
}

codes! {
    INVALID_VALUE = 1 "invalid argument";
    OUT_OF_MEMORY = 2 "out of memory";
    NOT_INITIALIZED = 3 "initialization error";
    NO_DEVICE = 100 "no CUDA-capable device is detected";
    INVALID_DEVICE = 101 "invalid device ordinal";
    INVALID_CONTEXT = 201 "invalid device context";
    MAP_FAILED = 205 "mapping of buffer object failed";
    ALREADY_MAPPED = 208 "resource already mapped";
    NO_BINARY_FOR_GPU = 209 "no kernel image is available for execution on the device";
    UNSUPPORTED_LIMIT = 215 "limit is not supported on this architecture";
    PEER_ACCESS_UNSUPPORTED = 217 "peer access is not supported between these two devices";
    FILE_NOT_FOUND = 301 "file not found";
    OPERATING_SYSTEM = 304 "OS call failed or operation not supported on this OS";
    INVALID_HANDLE = 400 "invalid resource handle";
    NOT_FOUND = 500 "named symbol not found";
    NOT_READY = 600 "device not ready";
    ILLEGAL_ADDRESS = 700 "an illegal memory access was encountered";
    LAUNCH_OUT_OF_RESOURCES = 701 "too many resources requested for launch";
    PEER_ACCESS_ALREADY_ENABLED = 704 "peer access is already enabled";
    PEER_ACCESS_NOT_ENABLED = 705 "peer access has not been enabled";
    PRIMARY_CONTEXT_ACTIVE = 708 "cannot set while device is active in this process";
    CONTEXT_IS_DESTROYED = 709 "context is destroyed";
    HOST_MEMORY_ALREADY_REGISTERED = 712 "part or all of the memory is already registered";
    HOST_MEMORY_NOT_REGISTERED = 713 "pointer does not correspond to a registered memory region";
    LAUNCH_FAILED = 719 "unspecified launch failure";
    COOPERATIVE_LAUNCH_TOO_LARGE = 720 "too many blocks in cooperative launch";
    NOT_PERMITTED = 800 "operation not permitted";
    NOT_SUPPORTED = 801 "operation not supported";
    STREAM_CAPTURE_UNSUPPORTED = 900 "operation not permitted when stream is capturing";
    STREAM_CAPTURE_INVALIDATED = 901
        "operation failed due to a previous error during capture";
    STREAM_CAPTURE_MERGE = 902 "operation would result in a merge of separate capture sequences";
    STREAM_CAPTURE_UNMATCHED = 903
        "capture was not ended in the same stream as it began";
    STREAM_CAPTURE_UNJOINED = 904 "capturing stream has unjoined work";
    STREAM_CAPTURE_ISOLATION = 905
        "dependency created on uncaptured work in another stream";
    STREAM_CAPTURE_IMPLICIT = 906
        "operation would make the legacy stream depend on a capturing blocking stream";
    CAPTURED_EVENT = 907 "operation not permitted on an event last recorded in a capturing stream";
    STREAM_CAPTURE_WRONG_THREAD = 908
        "attempt to terminate a thread-local capture sequence from another thread";
    UNKNOWN = 999 "unknown error";
}

/// Name and sentence of a code, each ending with a zero.
pub fn texts(code: i32) -> Option<(&'static str, &'static str)> {
    if code == 0 {
        return Some(("CUDA_SUCCESS\0", "no error\0"));
    }
    let found = CODES.iter().find(|entry| entry.0 == code);
    found.map(|entry| (entry.1, entry.2))
}
