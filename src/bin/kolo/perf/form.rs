//! As which program a measurement runs: `kolo perf`, or one of nccl-tests', and what the variables
//! of nccl-tests say.

use super::split::{Groups, Split};

/// The program.
#[derive(Clone, Debug, Default)]
pub struct Form {
    /// Its name, if it is one of nccl-tests'.
    pub tool: Option<&'static str>,
    /// `NCCL_TESTS_SPLIT_MASK`, or `NCCL_TESTS_SPLIT`; and once all processes have begun, the
    /// groups that process 0 knows of.
    pub groups: Option<Groups>,
    /// `NCCL_TESTS_DEVICE`: the number of the first device of each process.
    pub device: Option<u32>,
    /// `NCCL_TESTS_MIN_BW`: the average bus bandwidth that is expected.
    pub least_busbw: Option<f64>,
}

impl Form {
    /// Whether this is a program of nccl-tests.
    pub fn is_tool(&self) -> bool {
        self.tool.is_some()
    }

    /// The name in messages.
    pub fn name(&self) -> &'static str {
        self.tool.unwrap_or("perf")
    }

    /// Looks at the variables of nccl-tests.
    ///
    /// # Errors
    /// A sentence that names the variable and what it takes.
    pub fn read(&mut self, get: impl Fn(&str) -> Option<String>) -> Result<(), String> {
        let named = |name: &str, error: String| format!("{name}: {error}");
        let (words, mask) = ("NCCL_TESTS_SPLIT", "NCCL_TESTS_SPLIT_MASK");
        let split = match (get(mask), get(words)) {
            (Some(text), _) => {
                Some(Split::parse_hexadecimal(&text).map_err(|error| named(mask, error))?)
            }
            (None, Some(text)) => Some(Split::parse(&text).map_err(|error| named(words, error))?),
            (None, None) => None,
        };
        self.groups = split.map(|split| Groups {
            split,
            by_process: true,
        });
        if let Some(text) = get("NCCL_TESTS_DEVICE") {
            let number = text.trim().parse();
            let wrong = |_| named("NCCL_TESTS_DEVICE", format!("`{text}` is no number"));
            self.device = Some(number.map_err(wrong)?);
        }
        if let Some(text) = get("NCCL_TESTS_MIN_BW") {
            let number = text.trim().parse().ok().filter(|&n: &f64| n.is_finite());
            let wrong = || {
                named(
                    "NCCL_TESTS_MIN_BW",
                    format!("`{text}` is no bandwidth in GB/s"),
                )
            };
            self.least_busbw = Some(number.ok_or_else(wrong)?);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_of_nccl_tests_are_read() {
        let form = |set: &'static [(&str, &str)]| {
            let mut form = Form::default();
            let get = |name: &str| {
                let found = set.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| value.to_string())
            };
            form.read(get).map(|()| form)
        };
        let split = |set| form(set).unwrap().groups.map(|groups| groups.split);
        assert_eq!(split(&[]), None);
        assert_eq!(
            split(&[("NCCL_TESTS_SPLIT_MASK", "0x3")]),
            Some(Split::And(3))
        );
        assert_eq!(split(&[("NCCL_TESTS_SPLIT", "DIV 4")]), Some(Split::Div(4)));
        // The mask counts before the words.
        let both = [
            ("NCCL_TESTS_SPLIT", "DIV 4"),
            ("NCCL_TESTS_SPLIT_MASK", "10"),
        ];
        let both = form(Box::leak(Box::new(both))).unwrap().groups.unwrap();
        assert_eq!((both.split, both.by_process), (Split::And(16), true));
        let numbers = form(&[("NCCL_TESTS_DEVICE", "2"), ("NCCL_TESTS_MIN_BW", "1.5")]).unwrap();
        assert_eq!((numbers.device, numbers.least_busbw), (Some(2), Some(1.5)));
        for wrong in [
            &[("NCCL_TESTS_SPLIT", "BY 4")],
            &[("NCCL_TESTS_SPLIT_MASK", "x")],
            &[("NCCL_TESTS_DEVICE", "gpu0")],
            &[("NCCL_TESTS_MIN_BW", "fast")],
        ] {
            let error = form(wrong).map(|_| ()).unwrap_err();
            assert!(error.starts_with(wrong[0].0), "{error}");
        }
    }
}
