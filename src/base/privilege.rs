//! Whether this program has more rights than the user who started it.

/// Whether the system says so (`AT_SECURE`: set-user-ID, set-group-ID, file capabilities). The
/// environment of such a program is in the hands of somebody who has fewer rights, and so is what
/// the environment names: files, libraries, addresses. The dynamic linker ignores it then, and so
/// does kolo.
pub fn is_raised() -> bool {
    // SAFETY: plain library call; an unknown entry gives 0.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

#[cfg(test)]
mod tests {
    #[test]
    fn these_tests_have_the_rights_of_their_user() {
        assert!(!super::is_raised());
    }
}
