//! Which adapters there are, in the order in which they are preferred, and what matters about each.

use super::super::{DeviceInfo, DeviceKind};

/// All adapters, best first: discrete, integrated, virtual, software; Vulkan, Metal and DX12 before GL.
pub fn adapters() -> Vec<::wgpu::Adapter> {
    let instance = ::wgpu::Instance::new(::wgpu::InstanceDescriptor::new_without_display_handle());
    let mut found = pollster::block_on(instance.enumerate_adapters(::wgpu::Backends::all()));
    found.retain(|a| a.get_info().backend != ::wgpu::Backend::Noop);
    found.sort_by_key(|a| rank(&a.get_info()));
    found
}

/// Place in the order of preference, smaller first.
fn rank(info: &::wgpu::AdapterInfo) -> (DeviceKind, bool, bool) {
    (device_info(info).kind, info.backend == ::wgpu::Backend::Gl, swiftshader_last(&info.name))
}

/// Among software drivers llvmpipe is the faster one, so it comes first whatever order the loader found them in.
fn swiftshader_last(name: &str) -> bool {
    name.to_lowercase().contains("swiftshader")
}

fn kind(device_type: ::wgpu::DeviceType) -> DeviceKind {
    match device_type {
        ::wgpu::DeviceType::DiscreteGpu => DeviceKind::Discrete,
        ::wgpu::DeviceType::IntegratedGpu => DeviceKind::Integrated,
        ::wgpu::DeviceType::Cpu => DeviceKind::Software,
        ::wgpu::DeviceType::VirtualGpu | ::wgpu::DeviceType::Other => DeviceKind::Virtual,
    }
}

/// wgpu's facts in our words. GL reports llvmpipe as "other"; its name tells.
pub(crate) fn device_info(info: &::wgpu::AdapterInfo) -> DeviceInfo {
    let name = info.name.to_lowercase();
    let software = name.contains("llvmpipe") || name.contains("swiftshader") || name.contains("softpipe");
    DeviceInfo {
        name: info.name.clone(),
        backend: info.backend.to_str().into(),
        kind: if software { DeviceKind::Software } else { kind(info.device_type) },
        driver: [info.driver.as_str(), info.driver_info.as_str()].join(" ").trim().to_string(),
    }
}

/// What `wgattn devices` says about one adapter.
#[derive(Clone, Debug)]
pub struct AdapterReport {
    /// Position in the list, for `--device INDEX`.
    pub index: usize,
    /// Name, backend, kind and driver.
    pub info: DeviceInfo,
    /// PCI vendor number.
    pub vendor: u32,
    /// PCI device number.
    pub device: u32,
    /// Where it sits on the PCI bus, if it does.
    pub pci_bus: String,
    /// Smallest and largest subgroup.
    pub subgroup_sizes: (u32, u32),
    /// Whether it has timestamps.
    pub timestamps: bool,
    /// The limits that matter to compute.
    pub limits: Vec<(&'static str, u64)>,
}

/// Reports on all adapters, best first.
pub fn list_adapters() -> Vec<AdapterReport> {
    adapters().iter().enumerate().map(|(index, adapter)| report(index, adapter)).collect()
}

fn report(index: usize, adapter: &::wgpu::Adapter) -> AdapterReport {
    let (info, limits, features) = (adapter.get_info(), adapter.limits(), adapter.features());
    let subgroups = features.contains(::wgpu::Features::SUBGROUP);
    AdapterReport {
        index,
        info: device_info(&info),
        vendor: info.vendor,
        device: info.device,
        pci_bus: info.device_pci_bus_id.clone(),
        subgroup_sizes: if subgroups { (info.subgroup_min_size, info.subgroup_max_size) } else { (0, 0) },
        timestamps: features.contains(::wgpu::Features::TIMESTAMP_QUERY),
        limits: vec![
            ("max_storage_buffer_binding_size", limits.max_storage_buffer_binding_size),
            ("max_buffer_size", limits.max_buffer_size),
            ("max_compute_workgroup_storage_size", u64::from(limits.max_compute_workgroup_storage_size)),
            (
                "max_compute_invocations_per_workgroup",
                u64::from(limits.max_compute_invocations_per_workgroup),
            ),
            ("max_compute_workgroups_per_dimension", u64::from(limits.max_compute_workgroups_per_dimension)),
            ("max_storage_buffers_per_shader_stage", u64::from(limits.max_storage_buffers_per_shader_stage)),
            ("max_texture_dimension_2d", u64::from(limits.max_texture_dimension_2d)),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::rank;
    use ::wgpu::{AdapterInfo, Backend, DeviceType};

    fn adapter(name: &str, device_type: DeviceType, backend: Backend) -> AdapterInfo {
        AdapterInfo { name: name.into(), ..AdapterInfo::new(device_type, backend) }
    }

    #[test]
    fn a_real_gpu_comes_before_software_and_vulkan_before_gl() {
        let mut list = [
            adapter("llvmpipe (LLVM 15.0.6)", DeviceType::Other, Backend::Gl),
            adapter("SwiftShader Device", DeviceType::Cpu, Backend::Vulkan),
            adapter("llvmpipe (LLVM 15.0.6)", DeviceType::Cpu, Backend::Vulkan),
            adapter("Radeon", DeviceType::DiscreteGpu, Backend::Gl),
            adapter("virtio", DeviceType::VirtualGpu, Backend::Vulkan),
            adapter("UHD Graphics", DeviceType::IntegratedGpu, Backend::Vulkan),
            adapter("Radeon", DeviceType::DiscreteGpu, Backend::Vulkan),
        ];
        list.sort_by_key(rank);
        let names: Vec<_> = list.iter().map(|a| format!("{} {}", &a.name[..6], a.backend)).collect();
        let expected = [
            "Radeon vulkan",
            "Radeon gl",
            "UHD Gr vulkan",
            "virtio vulkan",
            "llvmpi vulkan",
            "SwiftS vulkan",
            "llvmpi gl",
        ];
        assert_eq!(names, expected);
    }
}
