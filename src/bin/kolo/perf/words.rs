//! How sizes, types, operations, roots and files are written on the command line.

use super::operation::Operation;
use kolo::dtype::DataType;
use std::path::PathBuf;

/// One, or all of them.
#[derive(Clone, Debug)]
pub struct Choice<T>(pub Vec<T>);

/// Which roots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Root {
    /// This one.
    One(u32),
    /// All in turn.
    All,
}

/// Bytes: a number, with K, M, G or T for powers of 1024.
///
/// # Errors
/// A sentence about what sizes look like.
pub fn size(text: &str) -> Result<u64, String> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = text[digits.len()..].to_ascii_uppercase();
    let shift = match unit.trim_end_matches('B').trim_end_matches('I') {
        "" => 0,
        "K" => 10,
        "M" => 20,
        "G" => 30,
        "T" => 40,
        _ => return Err("a size is a number, and K, M, G or T for powers of 1024".into()),
    };
    let number: f64 = digits
        .parse()
        .map_err(|_| "a size is a number, as 8, 64K or 1.5M".to_string())?;
    let bytes = number * (1u64 << shift) as f64;
    if (0.0..=(1u64 << 50) as f64).contains(&bytes) {
        Ok(bytes as u64)
    } else {
        Err("a size is from 0 to 1024T".into())
    }
}

/// An operation by its name, or all.
///
/// # Errors
/// The names that there are.
pub fn operations(text: &str) -> Result<Choice<Operation>, String> {
    if text == "all" {
        return Ok(Choice(Operation::all().collect()));
    }
    let op = Operation::from_name(text);
    op.map(|op| Choice(vec![op])).ok_or_else(|| {
        let names: Vec<&str> = Operation::all().map(Operation::name).collect();
        format!("there are {} and all", names.join(", "))
    })
}

/// A type by its name, or all.
///
/// # Errors
/// The names that there are.
pub fn types(text: &str) -> Result<Choice<DataType>, String> {
    let name = match text {
        "all" => return Ok(Choice(DataType::ALL.to_vec())),
        "int" => "int32",
        "float16" => "half",
        "float32" => "float",
        "float64" => "double",
        "fp8_e4m3" | "float8e4m3" => "f8e4m3",
        "fp8_e5m2" | "float8e5m2" => "f8e5m2",
        other => other,
    };
    DataType::from_name(name)
        .map(|dtype| Choice(vec![dtype]))
        .ok_or_else(|| {
            let names: Vec<&str> = DataType::ALL.iter().map(|dtype| dtype.name()).collect();
            format!("there are {} and all", names.join(", "))
        })
}

/// The number of a rank, or all.
///
/// # Errors
/// A sentence about what a root looks like.
pub fn root(text: &str) -> Result<Root, String> {
    match text {
        "all" | "-1" => Ok(Root::All),
        _ => text
            .parse()
            .map(Root::One)
            .map_err(|_| "a root is the number of a rank, or all".into()),
    }
}

/// The name of a picture, which is always an SVG.
///
/// # Errors
/// A name that promises another kind of picture.
pub fn picture(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let ending = path.extension().map(|ending| ending.to_ascii_lowercase());
    match ending.as_deref().and_then(|ending| ending.to_str()) {
        Some("svg") => Ok(path),
        _ => Err(format!(
            "only SVG is drawn: name the file {}",
            path.with_extension("svg").display()
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_their_units() {
        assert_eq!(size("8"), Ok(8));
        assert_eq!(size("64K"), Ok(65536));
        assert_eq!(size("1.5M"), Ok(3 << 19));
        assert_eq!(size("2GiB"), Ok(2 << 30));
        assert_eq!(size("0"), Ok(0));
        for bad in ["", "K", "8X", "-8", "8KK", "1e400", "nan"] {
            assert!(size(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn pictures_are_what_their_names_say() {
        assert_eq!(picture("a/b.svg"), Ok(PathBuf::from("a/b.svg")));
        assert!(picture("b.SVG").is_ok());
        for (wrong, right) in [("x.png", "x.svg"), ("x", "x.svg"), ("a/x.pdf", "a/x.svg")] {
            let error = picture(wrong).unwrap_err();
            assert!(error.ends_with(right), "{error}");
        }
    }
}
