//! Which devices and ports may be used: `^` excludes, `=` compares whole names, `name:port` names
//! one port.
//!
//! The syntax is that of interface lists: entries are separated by commas and stand for every name
//! that begins with them, unless `=` stands first (after `^`). An entry with a port takes only that
//! port of the device; without, all of them.

/// Whether port `port` of device `name` is selected by `list`; an empty list selects everything.
pub fn selects(list: &str, name: &str, port: u32) -> bool {
    let (exclude, rest) = strip(list.trim(), '^');
    let (exact, rest) = strip(rest, '=');
    let mut entries = rest
        .split(',')
        .map(str::trim)
        .filter(|entry| !entry.is_empty())
        .peekable();
    if entries.peek().is_none() {
        return true;
    }
    let listed = entries.any(|entry| {
        let (device, ports) = match entry.rsplit_once(':') {
            Some((device, number)) => (device, Some(number.parse::<u32>())),
            None => (entry, None),
        };
        let right_name = match exact {
            true => name == device,
            false => name.starts_with(device),
        };
        right_name && ports.is_none_or(|wanted| wanted == Ok(port))
    });
    listed != exclude
}

fn strip(text: &str, mark: char) -> (bool, &str) {
    match text.strip_prefix(mark) {
        Some(rest) => (true, rest),
        None => (false, text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_devices_and_ports() {
        for (list, name, port, expected) in [
            ("", "mlx5_0", 1, true),
            ("^", "mlx5_0", 1, true),
            ("mlx5", "mlx5_0", 2, true),
            ("mlx5_1", "mlx5_0", 1, false),
            ("mlx5_1", "mlx5_10", 1, true),
            ("=mlx5_1", "mlx5_10", 1, false),
            ("=mlx5_1", "mlx5_1", 2, true),
            ("mlx5_0:1", "mlx5_0", 1, true),
            ("mlx5_0:1", "mlx5_0", 2, false),
            ("=mlx5_0:1,mlx5_3:2", "mlx5_3", 2, true),
            ("=mlx5_0:1,mlx5_3:2", "mlx5_3", 1, false),
            ("^mlx5_0:2", "mlx5_0", 1, true),
            ("^mlx5_0:2", "mlx5_0", 2, false),
            ("^=mlx5_0, mlx5_1", "mlx5_1", 1, false),
            ("^=mlx5_0", "mlx5_01", 1, true),
            ("mlx5_0:x", "mlx5_0", 1, false),
            ("rxe", "mlx5_0", 1, false),
        ] {
            assert_eq!(
                selects(list, name, port),
                expected,
                "{list:?} {name}:{port}"
            );
        }
    }
}
