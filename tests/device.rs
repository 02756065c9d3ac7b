//! Choosing a device (case C21), and that there is one wgpu in the build (case C36).

use wgattn::Error;
use wgattn::backend::device::{choose, open};
use wgattn::backend::{DeviceInfo, DeviceKind};

fn info(name: &str, backend: &str, kind: DeviceKind) -> DeviceInfo {
    DeviceInfo { name: name.into(), backend: backend.into(), kind, driver: "1.0".into() }
}

/// Two equal cards and a software driver.
fn two_equal_cards() -> Vec<DeviceInfo> {
    vec![
        info("Radeon Pro W7900", "vulkan", DeviceKind::Discrete),
        info("Radeon Pro W7900", "vulkan", DeviceKind::Discrete),
        info("llvmpipe (LLVM 15.0.6, 256 bits)", "gl", DeviceKind::Software),
    ]
}

#[test]
fn an_index_picks_the_second_of_two_equal_names() {
    let (index, notice) = choose(&two_equal_cards(), "1").expect("there is a second adapter");
    assert_eq!((index, notice), (1, None));
}

#[test]
fn a_name_that_fits_two_takes_the_first_and_says_how_to_get_the_other() {
    let (index, notice) = choose(&two_equal_cards(), "radeon").expect("the name fits");
    let notice = notice.expect("a notice about the choice");
    assert_eq!(index, 0);
    for part in ["0: Radeon Pro W7900", "1: Radeon Pro W7900", "ask by index"] {
        assert!(notice.contains(part), "{part:?} is not in {notice:?}");
    }
}

#[test]
fn a_name_in_any_case_or_a_backend_is_enough() {
    for asked in ["LLVMpipe", "gl"] {
        assert_eq!(choose(&two_equal_cards(), asked).expect("it fits the last").0, 2, "{asked}");
    }
}

#[test]
fn an_unknown_name_or_index_is_an_error_that_lists_all_adapters() {
    for asked in ["geforce", "3"] {
        let message = choose(&two_equal_cards(), asked).expect_err("there is none").to_string();
        for part in ["0: Radeon", "1: Radeon", "2: llvmpipe"] {
            assert!(message.contains(part), "{part:?} is not in {message:?}");
        }
    }
}

#[test]
fn no_adapter_at_all_is_an_error_and_not_a_panic() {
    for asked in ["0", "radeon"] {
        choose(&[], asked).expect_err("there is nothing to choose");
    }
}

#[test]
fn kinds_are_preferred_in_the_order_discrete_integrated_virtual_software_reference() {
    let mut kinds = [
        DeviceKind::Reference,
        DeviceKind::Software,
        DeviceKind::Virtual,
        DeviceKind::Discrete,
        DeviceKind::Integrated,
    ];
    kinds.sort_unstable();
    let names: Vec<String> = kinds.iter().map(ToString::to_string).collect();
    assert_eq!(names, ["discrete", "integrated", "virtual", "software", "reference"]);
}

#[test]
fn automatic_choice_always_gives_a_device_and_announces_software() {
    let opened = open("auto").expect("the reference is there whatever happens");
    let kind = opened.backend.info().kind;
    let announced = opened.notices.iter().any(|n| n.contains("CPU"));
    assert_eq!(announced, kind >= DeviceKind::Software, "{kind}: {:?}", opened.notices);
}

#[test]
fn a_device_asked_for_by_name_is_never_replaced() {
    assert_eq!(open("cpu").expect("the reference").backend.info().kind, DeviceKind::Reference);
    assert!(matches!(open("no such adapter"), Err(Error::NoDevice { .. })));
    let told = open("cuda");
    let is_card = told.as_ref().is_ok_and(|opened| opened.backend.info().backend == "cuda");
    let is_missing = matches!(told, Err(Error::NoDevice { .. } | Error::NotBuilt { feature: "cuda" }));
    assert!(is_card || is_missing, "{told:?}");
}

/// Two versions of wgpu in one program are two unrelated sets of types.
#[test]
fn the_lock_file_names_one_wgpu_and_one_naga() {
    let lock = include_str!("../Cargo.lock");
    for package in ["wgpu", "wgpu-core", "wgpu-hal", "wgpu-types", "naga"] {
        let count = lock.lines().filter(|line| *line == format!("name = \"{package}\"")).count();
        assert_eq!(count, 1, "{package}");
    }
}
