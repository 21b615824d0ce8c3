//! Random numbers of the system.

use super::error::{Error, Result};

/// `N` bytes that nobody can foretell.
///
/// # Errors
/// The system gives none.
pub fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        Error::system(
            "the system gives no random bytes",
            &std::io::Error::other(error.to_string()),
            "check that /dev/urandom is readable",
        )
    })?;
    Ok(bytes)
}
