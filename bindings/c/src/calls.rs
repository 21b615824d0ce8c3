//! The forms of a call: with a stream, and with a request instead.
//!
//! **Idea.** A call is written once: the words of kolo.h, both names, the arguments, and which
//! function takes what they make. cbindgen does not look into macros, so `tests/header.rs` shows it
//! the declarations of [`calls!`] as plain functions. It reads them line by line: between two calls
//! stands an empty line, and nothing is indented, for the words have the width of the page.

/// Exports each call with a stream, and begun with a request.
macro_rules! calls {
    ($(
        $(#[doc = $words:literal])+
        $name:ident, $begun:ident($($argument:ident: $type:ty),*; $on:ident: $handle:ty)
        = $takes:ident($($made:expr),+ $(,)?);
    )+) => { $(
        $(#[doc = $words])+
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments)]
        pub unsafe extern "C" fn $name(
            $($argument: $type,)*
            $on: $handle,
            stream: koloStream_t,
        ) -> koloResult_t {
            // SAFETY: the contract of kolo.h.
            unsafe { $takes(&stringify!($name)["kolo".len()..], $($made,)+ $on, stream) }
        }

        #[doc = concat!("Begins ", stringify!($name), " and returns at once.")]
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments)]
        pub unsafe extern "C" fn $begun(
            $($argument: $type,)*
            $on: $handle,
            request: *mut koloRequest_t,
        ) -> koloResult_t {
            let begun = &stringify!($begun)["kolo".len()..];
            // SAFETY: the contract of kolo.h is that of the call.
            let call = |stream| unsafe { $takes(begun, $($made,)+ $on, stream) };
            // SAFETY: as above.
            unsafe { crate::request::begin(begun, request, call) }
        }
    )+ };
}

#[cfg(test)]
mod tests {
    use crate::collective::{koloBarrier, koloBcast, koloIAllReduce, koloIBarrier, koloIBcast};
    use crate::error::koloGetLastError;
    use crate::message::{koloIRecv, koloISend, koloISendRecv, koloSend};
    use crate::types::{koloRequest_t, koloResult_t};
    use crate::vector::{koloIAllGatherV, koloIAllToAllV, koloINeighborAllToAll};
    use std::ffi::CStr;
    use std::ptr::{null, null_mut};

    #[test]
    fn an_error_names_the_call_as_the_program_called_it() {
        type Refused<'a> = &'a dyn Fn(*mut koloRequest_t) -> koloResult_t;
        let (n, m) = (null(), null_mut());
        // None of them has a communicator or graph, so no buffer is looked at.
        // SAFETY: the request is valid, and nothing else is used.
        let calls: [(&str, Refused); 12] = unsafe {
            [
                ("Barrier", &|_| koloBarrier(null_mut(), null_mut())),
                ("Bcast", &|_| koloBcast(m, 1, 0, 0, null_mut(), null_mut())),
                ("Send", &|_| koloSend(n, 1, 0, 0, null_mut(), null_mut())),
                ("IBarrier", &|r| koloIBarrier(null_mut(), r)),
                ("IBcast", &|r| koloIBcast(m, 1, 0, 0, null_mut(), r)),
                ("IAllReduce", &|r| {
                    koloIAllReduce(n, m, 1, 0, 0, null_mut(), r)
                }),
                ("ISend", &|r| koloISend(n, 1, 0, 0, null_mut(), r)),
                ("IRecv", &|r| koloIRecv(m, 1, 0, 0, null_mut(), r)),
                ("ISendRecv", &|r| {
                    koloISendRecv(n, 1, 0, m, 1, 0, 0, null_mut(), r)
                }),
                ("IAllGatherV", &|r| {
                    koloIAllGatherV(n, 1, m, null(), null(), 0, null_mut(), r)
                }),
                ("IAllToAllV", &|r| {
                    let none = (null(), null());
                    koloIAllToAllV(n, none.0, none.1, m, none.0, none.1, 0, null_mut(), r)
                }),
                ("INeighborAllToAll", &|r| {
                    koloINeighborAllToAll(n, m, 1, 0, null_mut(), r)
                }),
            ]
        };
        for (name, call) in calls {
            let mut request = null_mut();
            let code = call(&raw mut request);
            // SAFETY: never null, and valid until this thread asks again.
            let said = unsafe { CStr::from_ptr(koloGetLastError(null_mut())) };
            let said = said.to_string_lossy();
            assert_eq!(code, koloResult_t::koloInvalidArgument, "{name}: {said}");
            assert!(said.starts_with(&format!("kolo: {name}: ")), "{said}");
            assert!(request.is_null(), "{name}");
        }
    }
}
