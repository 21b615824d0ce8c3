//! The client of PMIx beside libraries that are missing or do not answer.

use super::super::variables::fixed;
use super::*;

#[test]
fn a_server_is_known_by_its_variables() {
    let both = [("PMIX_NAMESPACE", "job"), ("PMIX_RANK", "0")];
    assert!(is_offered(&fixed(&both)));
    assert!(!is_offered(&fixed(&both[..1])) && !is_offered(&fixed(&[])));
}

#[test]
fn a_missing_library_is_an_error_and_no_crash() {
    let error = load("libno_such_pmix.so.2".as_ref()).err().unwrap();
    assert!(error.to_string().contains("libno_such_pmix"), "{error}");
    // A library that is none of PMIx.
    assert!(load("libm.so.6".as_ref()).is_err());
}

unsafe extern "C" fn greets(_: *mut Proc, _: *const Info, _: usize) -> c_int {
    SUCCESS
}
unsafe extern "C" fn ends(_: *const Info, _: usize) -> c_int {
    SUCCESS
}
unsafe extern "C" fn takes(_: u8, _: *const c_char, _: *const Value) -> c_int {
    SUCCESS
}
unsafe extern "C" fn commits() -> c_int {
    SUCCESS
}
unsafe extern "C" fn meets(_: *const Proc, _: usize, _: *const Info, _: usize) -> c_int {
    SUCCESS
}
unsafe extern "C" fn hangs(
    _: *const Proc,
    _: *const c_char,
    _: *const Info,
    _: usize,
    _: *mut *mut Value,
) -> c_int {
    loop {
        std::thread::park();
    }
}
unsafe extern "C" fn never_greets(_: *mut Proc, _: *const Info, _: usize) -> c_int {
    loop {
        std::thread::park();
    }
}
unsafe extern "C" fn words(_: c_int) -> *const c_char {
    c"words".as_ptr()
}

/// A library whose answer never comes.
#[test]
fn an_answer_that_does_not_come_is_waited_for_within_a_limit() {
    static SILENT: Functions = Functions {
        init: greets,
        finalize: ends,
        put: takes,
        commit: commits,
        fence: meets,
        get: hangs,
        text: words,
    };
    let me = Proc {
        nspace: [0; 256],
        rank: 0,
    };
    let client = Client {
        functions: &SILENT,
        me,
        nranks: 2,
        process: 0,
    };
    static DEAF: Functions = Functions {
        init: never_greets,
        ..SILENT
    };
    let limit = Duration::from_millis(30);
    let error = greet(&DEAF, limit).err().expect("no greeting");
    assert_eq!(error.code, Code::Timeout, "{error}");
    assert!(error.what.contains("PMIx_Init"), "{error}");
    assert!(greet(&SILENT, limit).is_ok());
    let error = client.get(1, JOB_SIZE, limit, |value| Some(value.kind));
    let error = error.unwrap_err();
    assert_eq!(error.code, Code::Timeout, "{error}");
    assert!(error.what.contains("PMIx_Get"), "{error}");
    assert!(client.fence_within(Duration::from_secs(60)).unwrap());
}
