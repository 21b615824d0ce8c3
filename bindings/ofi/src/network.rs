//! State that all connections of the process share: settings, devices and their endpoints, the
//! interface to meet on.

use crate::choice::{self, Device};
use crate::endpoint::Endpoint;
use crate::settings::{self, Settings};
use kolo::base::interfaces::{self, Interface};
use kolo::base::{Error, Result};
use kolo_plugin::greeting::host;
use kolo_plugin::report;
use std::sync::{Arc, Mutex, PoisonError};

/// The network.
pub struct Network {
    /// All devices of one provider.
    pub devices: Vec<Device>,
    /// Settings of the first communicator that used it.
    pub settings: Settings,
    /// Where the two ends of a connection meet.
    pub interface: Interface,
    /// This node's name, for the peer's messages.
    pub host: String,
    /// Opened by the first connection of each device.
    endpoints: Mutex<Vec<Option<Arc<Endpoint>>>>,
}

impl Network {
    /// Finds the devices, and opens one of them for a moment: what does not open is no network.
    ///
    /// # Errors
    /// `InvalidArgument` for a setting; `SystemError` when there is no device to use, with the
    /// reason for each.
    pub fn find() -> Result<Network> {
        let settings = settings::read()?;
        let found = interfaces::find(settings.family, settings.ifname.as_deref(), None)?;
        let devices = choice::find(&settings, &found)?;
        let first = found.into_iter().next();
        let interface = first.ok_or_else(|| Error::internal("no interface, and no error"))?;
        let network = Network {
            endpoints: Mutex::new(devices.iter().map(|_| None).collect()),
            devices,
            settings,
            interface,
            host: host(),
        };
        if let Some(device) = network.devices.first() {
            Endpoint::open(&device.way, &device.facts)?;
        }
        report::info(&network.line());
        Ok(network)
    }

    /// One line that says what is used.
    fn line(&self) -> String {
        let provider = self.devices.first().map_or("", |one| &one.facts.provider);
        let devices = self.devices.iter().enumerate();
        let devices: Vec<String> = devices
            .map(|(index, device)| format!("[{index}]{}", device.facts.domain))
            .collect();
        format!(
            "NET/ofi: using the libfabric provider {provider}: {}; meeting on {}:{}",
            devices.join(" "),
            self.interface.name,
            self.interface.address
        )
    }

    /// The endpoint of a device, opened when it is needed; another one where that was shut.
    pub fn endpoint(&self, device: usize) -> Result<Arc<Endpoint>> {
        let mut endpoints = self
            .endpoints
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let open = endpoints[device].as_ref().filter(|it| !it.is_broken());
        if let Some(endpoint) = open {
            return Ok(endpoint.clone());
        }
        let Device { way, facts, .. } = &self.devices[device];
        let endpoint = Arc::new(Endpoint::open(way, facts)?);
        endpoints[device] = Some(endpoint.clone());
        Ok(endpoint)
    }
}
