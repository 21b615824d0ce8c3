//! Names of methods that types and traits of std have, too, and those of other crates: alone they
//! do not say whose method is called.
//!
//! Of std they are the names of common types: integers, slices, strings, vectors, maps, options,
//! results, iterators, cells, locks, atomics, pointers, times, files, paths, sockets, threads,
//! processes; of other crates those that were mistaken. A name that is missing shows as an arrow or
//! a circle that is none: then it goes in here, in its order.

use std::collections::BTreeSet;

const NAMES: &str = "
    abs abs_diff add addr advance align_to all and and_then any append arg args as_bytes as_deref
    as_deref_mut as_fd as_mut as_mut_ptr as_mut_slice as_os_str as_path as_ptr as_raw_fd as_ref
    as_slice as_str assume_init back back_mut binary_search binary_search_by binary_search_by_key
    bind bits borrow borrow_mut by_ref bytes capacity cast ceil chain chars checked_add checked_div
    checked_mul checked_rem checked_shl checked_shr checked_sub chunk_by chunks chunks_exact
    chunks_mut clamp clear clone clone_from cloned close cmp code collect compare_exchange
    compare_exchange_weak components concat connect contains contains_key copied copy_from_slice
    copy_within count count_ones count_zeros create current_dir cycle dedup dedup_by_key deref
    deref_mut difference display div div_ceil div_euclid downcast downcast_mut downcast_ref
    downgrade drain drop duration_since elapsed end ends_with entry enumerate env eq
    eq_ignore_ascii_case error exists exit expect expect_err extend extend_from_slice fetch_add
    fetch_and fetch_max fetch_min fetch_or fetch_sub fetch_update fetch_xor file_name fill
    fill_with filter filter_map finalize find find_map finish first first_mut flat_map flatten
    floor flush fmt fold for_each fract front front_mut fuse ge get get_mut get_or_init
    get_or_insert get_or_insert_with get_ref gt hash id index index_mut init insert inspect
    intersection into into_boxed_slice into_bytes into_inner into_iter into_keys into_owned
    into_raw into_raw_fd into_string into_values ip is_absolute is_alphabetic is_alphanumeric
    is_ascii is_dir is_empty is_err is_file is_finished is_multicast is_nan is_none is_null is_ok
    is_power_of_two is_socket is_some is_some_and is_sorted is_subset iter iter_mut join key keys
    kill kind last last_mut last_os_error le leading_zeros leak len lines listen ln load local_addr
    lock log log2 lt make_ascii_lowercase map map_err map_or map_or_else map_while match_indices
    matches max max_by max_by_key metadata min min_by min_by_key mode mul mul_add name ne neg next
    next_back next_if next_multiple_of next_power_of_two not notify_all notify_one nth offset ok
    ok_or ok_or_else open option or or_default or_else or_insert or_insert_with output parent park
    parse partial_cmp partition partition_point path peek peekable peer_addr permissions pid poll
    pop pop_back pop_front port position pow powf powi product push push_back push_front push_str
    range raw_os_error read read_at read_dir read_exact read_line read_to_end read_to_string
    read_unaligned read_vectored read_volatile recv recv_from recv_timeout reduce rem rem_euclid
    remove remove_entry rename repeat replace reserve reserve_exact resize resize_with retain rev
    reverse rfind rotate_left rotate_right round rsplit rsplit_once saturating_add saturating_mul
    saturating_sub scan seek send send_to set set_len set_nodelay set_nonblocking set_permissions
    set_read_timeout shl shr shrink_to shrink_to_fit shutdown size_hint skip skip_while sleep sort
    sort_by sort_by_key sort_unstable sort_unstable_by sort_unstable_by_key source spawn split
    split_at split_at_mut split_first split_last split_off split_once split_terminator
    split_whitespace sqrt start starts_with status stderr stdin stdout step_by store strip_prefix
    strip_suffix sub sum swap swap_remove sync_all take take_error take_while then then_some
    then_with thread to_ascii_lowercase to_ascii_uppercase to_be_bytes to_bits to_le_bytes
    to_lowercase to_ne_bytes to_owned to_path_buf to_str to_string to_string_lossy to_uppercase
    to_vec trailing_zeros transpose trim trim_end trim_end_matches trim_matches trim_start
    trim_start_matches truncate try_borrow try_clone try_fold try_for_each try_from try_get
    try_into try_iter try_lock try_read try_recv try_reserve try_send try_wait try_write union
    unlock unpark unwrap unwrap_err unwrap_or unwrap_or_default unwrap_or_else unwrap_unchecked
    unzip update upgrade value values values_mut wait wait_timeout wait_while wake wake_by_ref
    windows with with_extension with_file_name wrapping_add wrapping_mul wrapping_neg wrapping_sub
    write write_all write_at write_bytes write_fmt write_str write_unaligned write_vectored
    write_volatile yield_now zip
";

pub fn names() -> BTreeSet<&'static str> {
    NAMES.split_whitespace().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_once_and_in_order() {
        let names: Vec<&str> = NAMES.split_whitespace().collect();
        assert!(names.is_sorted_by(|a, b| a < b), "{:?}", unsorted(&names));
        assert!(super::names().contains("get") && super::names().contains("zip"));
    }

    fn unsorted<'a>(names: &[&'a str]) -> Vec<&'a str> {
        let pairs = names.windows(2).filter(|pair| pair[0] >= pair[1]);
        pairs.map(|pair| pair[1]).collect()
    }
}
