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
            // SAFETY: the contract of kolo.h is that of the call.
            let call = |stream| unsafe { $name($($argument,)* $on, stream) };
            // SAFETY: as above.
            unsafe { crate::request::begin(&stringify!($begun)["kolo".len()..], request, call) }
        }
    )+ };
}
