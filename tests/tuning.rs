//! Variants that are chosen by measuring them: what is taken, what never is, what is remembered, and what becomes of a file that is odd.
//! Times come from the tests, never from a clock.

use libtest_mimic::{Arguments, Failed, Trial};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use wgattn::backend::wgpu::{Options, TuningOptions, WgpuBackend, adapters};
use wgattn::backend::{Backend as _, DeviceKind, Listener, Program as _, Tuning};
use wgattn::conformance::{self, Expected};
use wgattn::graph::Graph;
use wgattn::kernel::case::Concrete;
use wgattn::kernel::{Case, KernelSpec, OnWgpu};
use wgattn::kernels::{KERNELS, find};

mod support;

fn main() {
    let args = Arguments::from_args();
    let mut trials = support::adapter_trials(&[
        ("nothing_is_searched_unless_asked_for", unasked),
        ("the_quickest_variant_is_taken", quickest),
        ("a_variant_that_computes_wrongly_is_not_taken", wrong),
        ("choices_outlive_the_process", outlive),
        ("choices_of_two_devices_come_together_in_one_file", together),
        ("an_odd_file_costs_a_notice_and_a_search", odd_files),
        ("a_folder_that_cannot_be_written_costs_one_notice", unwritable),
        ("without_time_nothing_is_tried_and_somebody_is_told", no_time),
        ("held_kernels_and_untuned_copies_are_left_alone", held),
        ("what_no_trial_can_be_made_of_keeps_its_default", untried),
        ("right_variants_are_not_called_wrong", right),
        ("composed_kernels_stay_right", composed),
        ("the_benchmark_measures_both_ways", benchmark),
    ]);
    trials.push(Trial::test("kinds_of_device", kinds));
    libtest_mimic::run(&args, trials).exit();
}

/// Says how long variants take (1 s if not listed) and which compute wrongly, and hears what is told.
#[derive(Debug, Default)]
struct Script {
    seconds: Vec<(&'static str, f64)>,
    wrong: Option<&'static str>,
    heard: Mutex<Vec<String>>,
    runs: AtomicUsize,
}

impl Script {
    /// One variant is quicker than all others.
    fn quick(variant: &'static str) -> Self {
        Self { seconds: vec![(variant, 0.5)], ..Self::default() }
    }

    fn heard(&self) -> Vec<String> {
        self.heard.lock().expect("no test panicked with it").clone()
    }

    fn runs(&self) -> usize {
        self.runs.load(Ordering::Relaxed)
    }
}

impl Listener for Script {
    fn notice(&self, text: &str) {
        self.heard.lock().expect("no test panicked with it").push(text.into());
    }

    fn time(&self, _: &str, variant: &str, _: f64) -> f64 {
        self.runs.fetch_add(1, Ordering::Relaxed);
        self.seconds.iter().find(|(v, _)| *v == variant).map_or(1.0, |(_, s)| *s)
    }

    fn result(&self, _: &str, variant: &str, numbers: &mut [f64]) {
        if self.wrong == Some(variant) {
            numbers[0] += 1.0;
        }
    }
}

/// A new folder that goes away with the test.
struct Folder(PathBuf);

impl Folder {
    fn new(adapter: &wgpu::Adapter, test: &str) -> Self {
        let name = support::test_name(0, &adapter.get_info());
        let path = std::env::temp_dir().join(format!("wgattn-tuning-{test}-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&path);
        Self(path)
    }

    /// The one file in it.
    fn file(&self) -> PathBuf {
        let files: Vec<PathBuf> = std::fs::read_dir(&self.0)
            .expect("the folder is there")
            .map(|f| f.expect("a file").path())
            .collect();
        assert_eq!(files.len(), 1, "{files:?}");
        files[0].clone()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What is left of a failed test does no harm.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A tuned device; searches may take as long as they like.
fn tuned(adapter: &wgpu::Adapter, folder: Option<&Path>, script: &Arc<Script>) -> WgpuBackend {
    let tuning = TuningOptions {
        when: Tuning::On,
        folder: folder.map(Into::into),
        seconds: Some(3600.0),
        listener: Some(Arc::<Script>::clone(script)),
    };
    WgpuBackend::on_adapter(adapter, Options { tuning, ..Options::default() })
        .expect("the adapter gives a device")
}

fn case(kernel: &str, name: &str) -> (&'static KernelSpec, &'static Case) {
    let spec = find(kernel).expect("a kernel of the list");
    (spec, spec.cases.iter().find(|c| c.name == name).expect("one of its cases"))
}

fn graph(kernel: &str, name: &str) -> Graph {
    let (spec, case) = case(kernel, name);
    Concrete::of(spec, case).and_then(|c| c.graph()).expect("a case is a graph").0
}

/// The variant that runs for a case of one step, and whether a search chose it.
fn variant(backend: &WgpuBackend, kernel: &str, name: &str) -> (&'static str, bool) {
    let program = backend.prepare(&graph(kernel, name)).expect("it compiles");
    let forms = program.step_forms();
    assert_eq!(forms.len(), 1, "{kernel} is one step");
    (forms[0].variant, program.tuned_steps() == 1)
}

/// Whether a case comes out right on a device.
fn is_right(backend: &WgpuBackend, kernel: &str, name: &str) -> Result<(), Failed> {
    let (spec, case) = case(kernel, name);
    let expected = Expected::of(spec, case).expect("there is a reference");
    let ran = conformance::check(backend, &expected).map_err(|e| Failed::from(e.to_string()))?;
    match ran.judged.iter().find(|judged| !judged.passes()) {
        Some(failing) => Err(failing.to_string().into()),
        None => Ok(()),
    }
}

fn kinds() -> Result<(), Failed> {
    for (when, on) in [
        (Tuning::Off, [false, false, false]),
        (Tuning::Auto, [true, false, false]),
        (Tuning::On, [true, true, false]),
    ] {
        let kinds = [DeviceKind::Integrated, DeviceKind::Software, DeviceKind::Reference];
        assert_eq!(kinds.map(|kind| when.applies_to(kind)), on, "{when}");
    }
    Ok(())
}

fn unasked(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let backend = WgpuBackend::on_adapter(adapter, Options::default()).expect("the adapter gives a device");
    assert!(!backend.is_tuned() && backend.untuned().is_none(), "a host's device");
    assert!(!variant(&backend, "matmul", "odd").1 && backend.tuned_choices().is_empty());
    let tuning = TuningOptions { when: Tuning::Auto, ..TuningOptions::default() };
    let backend = WgpuBackend::on_adapter(adapter, Options { tuning, ..Options::default() });
    let backend = backend.expect("the adapter gives a device");
    assert_eq!(backend.is_tuned(), backend.info().kind != DeviceKind::Software);
    Ok(())
}

fn quickest(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let script = Arc::new(Script::quick("tile64"));
    let backend = tuned(adapter, None, &script);
    // What a GPU takes by itself is no other choice there.
    let default = variant(&backend.without_tuning(), "matmul", "odd").0;
    assert_eq!(variant(&backend, "matmul", "odd"), ("tile64", default != "tile64"));
    is_right(&backend, "matmul", "odd")?;
    let choices = backend.tuned_choices();
    assert_eq!(choices.len(), 1, "{choices:?}");
    let choice = &choices[0];
    assert_eq!(
        (choice.kernel.as_str(), choice.variant.as_str(), choice.default.as_str()),
        ("matmul", "tile64", default)
    );
    assert_eq!(choice.seconds, 0.5);
    // Another size of the same class is not searched for, one of another class is.
    let runs = script.runs();
    assert_eq!(variant(&backend, "matmul", "odd").0, "tile64");
    assert_eq!(script.runs(), runs);
    variant(&backend, "matmul", "transposed_w");
    assert!(script.runs() > runs);
    assert_eq!(script.heard(), Vec::<String>::new());
    Ok(())
}

fn wrong(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let script = Arc::new(Script { wrong: Some("tile32"), ..Script::quick("tile32") });
    let backend = tuned(adapter, None, &script);
    let default = variant(&backend.without_tuning(), "matmul", "odd").0;
    assert_eq!(variant(&backend, "matmul", "odd"), (default, false));
    let heard = script.heard();
    assert!(heard.len() == 1 && heard[0].contains("matmul/tile32 differs from"), "{heard:?}");
    is_right(&backend, "matmul", "odd")
}

fn outlive(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let folder = Folder::new(adapter, "outlive");
    let first = Arc::new(Script::quick("tile32"));
    assert_eq!(variant(&tuned(adapter, Some(&folder.0), &first), "matmul", "odd"), ("tile32", true));
    let second = Arc::new(Script::quick("plain"));
    let backend = tuned(adapter, Some(&folder.0), &second);
    assert_eq!(backend.tuned_file(), Some(folder.file().as_path()));
    assert_eq!(variant(&backend, "matmul", "odd"), ("tile32", true));
    assert_eq!((second.runs(), second.heard()), (0, Vec::new()), "nothing is searched for again");
    Ok(())
}

fn together(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let folder = Folder::new(adapter, "together");
    let script = Arc::new(Script::quick("tile32"));
    let backends = [tuned(adapter, Some(&folder.0), &script), tuned(adapter, Some(&folder.0), &script)];
    // Both look at the file before either writes.
    assert!(backends.iter().all(|b| b.tuned_choices().is_empty()));
    variant(&backends[0], "matmul", "odd");
    variant(&backends[1], "kernel_matrix", "odd");
    let choices = tuned(adapter, Some(&folder.0), &script).tuned_choices();
    let kernels: Vec<&str> = choices.iter().map(|c| c.kernel.as_str()).collect();
    assert_eq!(kernels, ["kernel_matrix", "matmul"]);
    Ok(())
}

fn odd_files(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let folder = Folder::new(adapter, "odd-files");
    let script = Arc::new(Script::quick("tile32"));
    variant(&tuned(adapter, Some(&folder.0), &script), "kernel_matrix", "odd");
    let file = folder.file();
    let whole = std::fs::read_to_string(&file).expect("a text");
    let kinds: [(&str, Vec<u8>); 6] = [
        ("empty", Vec::new()),
        ("cut off", whole.as_bytes()[..whole.len() - 2].to_vec()),
        ("is no text", vec![0xff; 64]),
        ("does not begin with", b"{\"schema\": \"other\"}\n".to_vec()),
        ("is of another version", whole.replace("version: ", "version: 9.").into_bytes()),
        ("is no choice", whole.replace("\ttile32\t", "\tno_such_variant\t").into_bytes()),
    ];
    for (told, bytes) in kinds {
        std::fs::write(&file, bytes).expect("the folder is writable");
        let script = Arc::new(Script::quick("tile32"));
        let backend = tuned(adapter, Some(&folder.0), &script);
        assert_eq!(variant(&backend, "kernel_matrix", "odd"), ("tile32", true), "{told}");
        let heard = script.heard();
        let name = file.display().to_string();
        assert!(heard.len() == 1 && heard[0].contains(told) && heard[0].contains(&name), "{told}: {heard:?}");
        assert!(heard[0].contains("delete the file") && heard[0].contains("--tune off"), "{heard:?}");
        // It is whole again, and says the same, but for what it measured.
        let again = tuned(adapter, Some(&folder.0), &script).tuned_choices();
        assert_eq!(again.len(), 1, "{told}: {again:?}");
    }
    // A folder in its place can be neither read nor replaced.
    std::fs::remove_file(&file).expect("the file is ours");
    std::fs::create_dir(&file).expect("the folder is writable");
    let script = Arc::new(Script::quick("tile32"));
    assert_eq!(variant(&tuned(adapter, Some(&folder.0), &script), "kernel_matrix", "odd"), ("tile32", true));
    assert_eq!(script.heard().len(), 2, "{:?}", script.heard());
    Ok(())
}

fn unwritable(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let folder = Folder::new(adapter, "unwritable");
    std::fs::create_dir_all(&folder.0).expect("a temporary folder");
    // A file where the folder should be: no rights make that work, the administrator's included.
    let place = folder.0.join("file");
    std::fs::write(&place, "").expect("the folder is writable");
    let script = Arc::new(Script::quick("tile32"));
    let backend = tuned(adapter, Some(&place.join("wgattn")), &script);
    assert_eq!(variant(&backend, "kernel_matrix", "odd"), ("tile32", true));
    assert_eq!(variant(&backend, "kernel_matrix", "gaussian"), ("tile32", true));
    let unwritten = script.heard().into_iter().filter(|t| t.contains("cannot be written")).count();
    assert_eq!(unwritten, 1, "{:?}", script.heard());
    Ok(())
}

fn no_time(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let script = Arc::new(Script::quick("tile32"));
    let tuning = TuningOptions {
        when: Tuning::On,
        seconds: Some(0.0),
        listener: Some(Arc::<Script>::clone(&script)),
        ..TuningOptions::default()
    };
    let backend = WgpuBackend::on_adapter(adapter, Options { tuning, ..Options::default() });
    let backend = backend.expect("the adapter gives a device");
    assert!(!variant(&backend, "matmul", "odd").1);
    let heard = script.heard();
    assert!(heard.len() == 1 && heard[0].contains("[matmul]") && heard[0].contains("default"), "{heard:?}");
    assert_eq!(script.runs(), 0);
    let program = backend.prepare(&graph("matmul", "odd")).expect("it compiles");
    assert_eq!(program.untried_steps(), 1, "a program says that its search was cut short");
    let untuned = backend.without_tuning().prepare(&graph("matmul", "odd")).expect("it compiles");
    assert_eq!(untuned.untried_steps(), 0);
    Ok(())
}

fn held(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let script = Arc::new(Script::quick("tile32"));
    let backend = tuned(adapter, None, &script);
    assert_eq!(
        variant(&backend.with_variants(Some("matmul/plain".into())), "matmul", "odd"),
        ("plain", false)
    );
    assert!(!variant(&backend.without_tuning(), "matmul", "odd").1);
    let untuned = backend.untuned().expect("it is tuned");
    assert_eq!(untuned.compile(&graph("matmul", "odd")).expect("it compiles").tuned_steps(), 0);
    assert_eq!(script.runs(), 0);
    // Other kernels are as free as ever.
    let others = backend.with_variants(Some("kernel_matrix/plain".into()));
    assert_eq!(variant(&others, "matmul", "odd"), ("tile32", true));
    Ok(())
}

fn untried(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let script = Arc::new(Script::default());
    let backend = tuned(adapter, None, &script);
    // Links of a network, given when it runs; paths of a probe.
    for kernel in ["spmm", "probe_load"] {
        let spec = find(kernel).expect("a kernel of the list");
        let smallest = spec.cases.iter().find(|c| !c.bench).expect("a case for tests");
        assert!(!variant(&backend, kernel, smallest.name).1, "{kernel}");
    }
    assert_eq!((script.runs(), script.heard()), (0, Vec::new()));
    Ok(())
}

/// A case of the kernel whose sizes are not multiples of four, or any.
fn odd_case(spec: &'static KernelSpec) -> &'static Case {
    let tested = || spec.cases.iter().filter(|c| !c.bench && c.dims.iter().all(|(_, s)| *s > 0));
    let odd = tested().find(|c| c.dims.iter().any(|(_, s)| *s > 4 && s % 4 != 0));
    odd.or_else(|| tested().next()).expect("every kernel has a case that does something")
}

fn right(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let script = Arc::new(Script::default());
    let backend = tuned(adapter, None, &script);
    for spec in KERNELS {
        let OnWgpu::Shader(variants) = &spec.wgpu else { continue };
        if variants.len() > 1 {
            let concrete = Concrete::of(spec, odd_case(spec)).expect("a case");
            backend.tune(&concrete.graph().expect("a graph").0).expect("it can be tuned");
        }
    }
    let kernels: std::collections::BTreeSet<String> =
        backend.tuned_choices().into_iter().map(|c| c.kernel).collect();
    // All but those of whole numbers that mean something.
    assert!(kernels.len() >= 8, "{kernels:?}");
    assert_eq!(script.heard(), Vec::<String>::new());
    Ok(())
}

fn composed(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    // Whatever is not the default is taken.
    let script = Arc::new(Script {
        seconds: ["plain", "tile32", "tile128x64", "tile"].iter().map(|v| (*v, 0.5)).collect(),
        ..Script::default()
    });
    let backend = tuned(adapter, None, &script);
    for kernel in ["nystrom_attention", "linear_attention", "fft"] {
        let spec = find(kernel).expect("a kernel of the list");
        is_right(&backend, kernel, odd_case(spec).name)?;
    }
    assert_eq!(script.heard(), Vec::<String>::new());
    Ok(())
}

/// The command line, with choices that stand in its cache beforehand.
fn benchmark(adapter: &wgpu::Adapter) -> Result<(), Failed> {
    let folder = Folder::new(adapter, "benchmark");
    let script = Arc::new(Script::quick("tile32"));
    let backend = tuned(adapter, Some(&folder.0.join("wgattn")), &script);
    assert_eq!(variant(&backend, "matmul", "batch_64x49"), ("tile32", true));
    let info = adapter.get_info();
    let index = adapters().iter().position(|a| {
        let other = a.get_info();
        (other.name, other.backend) == (info.name.clone(), info.backend)
    });
    let index = index.expect("it is one of this machine").to_string();
    let bench = |tune: &str| -> serde_json::Value {
        let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_wgattn"));
        command.args(["bench", "matmul", "--case", "batch_64x49", "--quick", "--seconds", "0.01", "--json"]);
        command.args(["--device", &index, "--tune", tune]);
        // Wherever this system has its caches.
        for name in ["XDG_CACHE_HOME", "LOCALAPPDATA", "HOME"] {
            command.env(name, &folder.0);
        }
        let output = command.output().expect("the program built for this test starts");
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{errors}");
        serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {errors}"))
    };
    if cfg!(target_os = "macos") {
        // There the folder below the home folder has another name.
        return Ok(());
    }
    let document = bench("on");
    assert_eq!(document["options"]["tune"], "on");
    let rows = document["devices"][0]["rows"].as_array().expect("rows");
    let told: Vec<(bool, &str)> =
        rows.iter().map(|r| (r["tuned"] == true, r["variants"][0].as_str().unwrap_or_default())).collect();
    assert!(told.len() == 2 && !told[0].0 && told[1] == (true, "matmul/tile32"), "{told:?}");
    assert_ne!(told[0].1, "matmul/tile32");
    assert!(rows.iter().all(|r| r["failure"].is_null()), "{rows:?}");
    let document = bench("off");
    let rows = document["devices"][0]["rows"].as_array().expect("rows");
    assert!(rows.len() == 1 && rows[0]["tuned"] == false, "{rows:?}");
    Ok(())
}
