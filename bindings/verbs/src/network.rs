//! State that all connections of the process share: settings, ports, the interfaces to meet on.

use crate::device::{self, Port};
use crate::settings::{self, Settings};
use kolo::base::interfaces::{self, Interface};
use kolo::base::{Code, Error, Result};
use kolo_plugin::greeting::host;
use kolo_plugin::report;

/// The network.
pub struct Network {
    pub ports: Vec<Port>,
    pub settings: Settings,
    /// Where the two ends of a connection meet.
    pub interface: Interface,
    /// This node's name, for the peer's messages.
    pub host: String,
}

/// The interface on which the two ends of a connection meet. Without one there is no RDMA, whatever
/// devices there are.
fn meeting(settings: &Settings) -> Result<Interface> {
    let found = interfaces::find(settings.family, settings.ifname.as_deref(), None);
    let first = found.and_then(|found| {
        let first = found.into_iter().next();
        first.ok_or_else(|| Error::internal("no interface was found, and no error"))
    });
    first.inspect_err(|error| {
        report::warn(&format!(
            "NET/verbs: no RDMA, as there is no interface on which connections could meet: {}",
            error.what
        ));
    })
}

impl Network {
    /// Opens all devices that the settings allow.
    ///
    /// # Errors
    /// `InvalidArgument` for a setting; `SystemError` when there is no device to use, with the
    /// reason for each.
    pub fn find() -> Result<Network> {
        let settings = settings::read()?;
        if settings.disable {
            return Err(Error::usage(
                "RDMA is switched off by KOLO_IB_DISABLE",
                "unset KOLO_IB_DISABLE (and NCCL_IB_DISABLE) to use it",
            ));
        }
        let interface = meeting(&settings)?;
        // SAFETY: marks what is registered later, so that children of a fork do without it.
        let code = unsafe { ibverbs_sys::ibv_fork_init() };
        if code != 0 {
            report::warn(
                "NET/verbs: another library used RDMA before kolo, so memory is not protected \
                 across fork(); set RDMAV_FORK_SAFE=1 if the program forks",
            );
        }
        let found = device::find(&settings);
        if found.ports.is_empty() {
            return Err(nothing(&found.refused));
        }
        let network = Network {
            ports: found.ports,
            settings,
            interface,
            host: host(),
        };
        report::info(&network.line(&found.refused));
        Ok(network)
    }

    /// One line that says what is used, and what is not.
    fn line(&self, refused: &[String]) -> String {
        let ports: Vec<String> = self.ports.iter().enumerate().map(describe).collect();
        let meeting = format!("{}:{}", self.interface.name, self.interface.address);
        let mut line = format!("NET/verbs: using {}; meeting on {meeting}", ports.join(" "));
        if !refused.is_empty() {
            line.push_str("; not used: ");
            line.push_str(&refused.join(", "));
        }
        line
    }
}

fn describe((index, port): (usize, &Port)) -> String {
    let kind = if port.ethernet { "RoCE" } else { "IB" };
    format!("[{index}]{}:{}/{kind}", port.device.name, port.number)
}

fn nothing(refused: &[String]) -> Error {
    let why = match refused.is_empty() {
        true => "libibverbs knows none on this node".to_string(),
        false => refused.join(", "),
    };
    Error::new(
        Code::SystemError,
        format!("no RDMA device can be used: {why}"),
        "`ibv_devinfo` lists the devices; bring a port up, or correct KOLO_IB_HCA",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_to_use_says_why() {
        let error = nothing(&[]);
        assert!(error.what.contains("no RDMA device"), "{error}");
        let error = nothing(&["rxe0 port 1 is not active".into()]);
        assert!(error.what.contains("rxe0 port 1 is not active"), "{error}");
        assert!(error.remedy.contains("KOLO_IB_HCA"), "{error}");
    }
}
