//! Planning figures: what a link of a known kind carries in one direction, in megabytes per second.
//!
//! They follow from public link rates times a usual share for headers and flow control. They order
//! links and size channels; times are predicted from measurements elsewhere.

/// Between NUMA nodes of one package.
pub const SAME_PACKAGE: u32 = 50_000;
/// Between a last-level cache and its memory.
pub const CACHE: u32 = 40_000;
/// Rate at which one core copies.
pub const CORE: u32 = 8_000;
/// Rate at which all cores of a NUMA node copy together.
pub const NUMA_MEMORY: u32 = 64_000;
/// A network of which nothing is known: 10 Gb/s.
pub const UNKNOWN_NET: u32 = 1_250;
/// A PCI link of which nothing is known: third generation, 16 lanes.
pub const UNKNOWN_PCI: u32 = 12_000;

/// A channel has one worker on each rank; it does not move more than this.
pub const CHANNEL: u32 = 40_000;

/// PCI: transfers per second of one lane in millions (16000 for 16 GT/s) times lanes. A transfer is
/// one bit; three quarters remain for data.
pub fn pci(megatransfers_per_s: u32, lanes: u32) -> u32 {
    let bits = u64::from(megatransfers_per_s) * u64::from(lanes);
    u32::try_from(bits * 3 / 4 / 8).unwrap_or(u32::MAX)
}

/// PCI from the rate that hwloc gives: encoding is off already.
pub fn pci_from_rate(megabytes_per_s: u64) -> u32 {
    // 128 of 130 bits carry data, so that both ways give the same for the same link.
    let data = megabytes_per_s.saturating_mul(130) / 128 * 3 / 4;
    // Rounded, so that 31508 and 31507 are one speed.
    u32::try_from(data.div_ceil(100) * 100).unwrap_or(u32::MAX)
}

/// One NVLink of a GPU with this compute capability (80 stands for 8.0): four fifths of 20, 25 or
/// 50 GB/s, 14 GB/s for the small one of workstation cards.
pub fn nvlink(compute_capability: u32) -> u32 {
    match compute_capability {
        0..70 => 16_000,
        86 => 11_200,
        70..100 => 20_000,
        _ => 40_000,
    }
}

/// One xGMI link between GPUs of AMD of this architecture (`gfx90a`, or its number as in 942): four
/// fifths of 46, 50 or 64 GB/s.
pub fn xgmi(architecture: &str) -> u32 {
    match architecture.trim_start_matches("gfx") {
        name if name.starts_with("90a") || name.starts_with("910") => 40_000,
        name if name.starts_with("94") || name.starts_with("95") => 51_200,
        _ => 36_800,
    }
}

/// Between packages: UPI, xGMI, X-bus, and what Arm servers have.
pub fn between_packages(arch: &str, vendor: &str) -> u32 {
    match (arch, vendor) {
        ("ppc64", _) => 32_000,
        ("arm64" | "aarch64", _) => 16_000,
        (_, vendor) if vendor.contains("AMD") => 24_000,
        (_, vendor) if vendor.contains("Intel") => 20_000,
        _ => 10_000,
    }
}

/// A network port with this rate in megabits per second.
pub fn port(megabits_per_s: u32) -> u32 {
    (megabits_per_s / 8).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_links() {
        assert_eq!(pci(8_000, 16), 12_000);
        assert_eq!(pci(16_000, 16), 24_000);
        assert_eq!(pci(32_000, 16), 48_000);
        assert_eq!(pci_from_rate(15_754), 12_000);
        assert_eq!(pci_from_rate(31_508), 24_000);
        assert_eq!(pci_from_rate(63_015), 48_000);
        assert_eq!(port(200_000), 25_000);
        assert_eq!(nvlink(60), 16_000);
        assert_eq!(nvlink(90), 20_000);
        let links = ["906", "908", "910", "gfx90a", "942", "gfx950", ""].map(xgmi);
        assert_eq!(
            links,
            [36_800, 36_800, 40_000, 40_000, 51_200, 51_200, 36_800]
        );
        assert_eq!(between_packages("x86_64", "GenuineIntel"), 20_000);
        assert_eq!(between_packages("x86_64", "AuthenticAMD"), 24_000);
    }
}
