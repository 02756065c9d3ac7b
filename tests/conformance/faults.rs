//! Injected faults: each is told as designed, and costs no more than it must.

use super::*;

/// What goes wrong on a device, for graphs of one kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Fault {
    /// The last number of every output is one more.
    Wrong(&'static str),
    /// The driver does not compile it.
    Refuses(&'static str),
    /// Something below us panics.
    Panics(&'static str),
    /// The device goes away the first time.
    Loses(&'static str),
    /// The driver never comes back.
    Hangs(&'static str),
}

/// A device with a fault.
#[derive(Clone, Debug)]
pub(super) struct Faulty {
    inner: Arc<dyn Backend>,
    fault: Fault,
    losses: Arc<AtomicUsize>,
}

impl Faulty {
    pub(super) fn new(inner: Arc<dyn Backend>, fault: Fault) -> Self {
        Self { inner, fault, losses: Arc::default() }
    }

    /// A device under test; opening it counts.
    pub(super) fn device(self, openings: Arc<AtomicUsize>) -> Device {
        let open = move || {
            openings.fetch_add(1, Ordering::Relaxed);
            Ok(Arc::new(self.clone()) as Arc<dyn Backend>)
        };
        opened(Box::new(open))
    }
}

/// A device under test that opens.
pub(super) fn opened(open: conformance::Open) -> Device {
    Device::open("the test's device", None, PATIENCE, open).expect("it opens")
}

/// Seconds that a case may take here: none comes near.
pub(super) const PATIENCE: f64 = conformance::MOST_CASE_SECONDS;

impl Backend for Faulty {
    fn info(&self) -> DeviceInfo {
        self.inner.info()
    }

    fn compile(&self, graph: &Graph) -> Result<Box<dyn Program>> {
        let inner = self.inner.compile(graph)?;
        let kernel = inner.schedule().label.clone();
        match self.fault {
            Fault::Refuses(name) if name == kernel => Err(Error::Device {
                device: self.info().name,
                context: kernel,
                message: "internal compiler error".into(),
            }),
            Fault::Panics(name) if name == kernel && self.losses.fetch_add(1, Ordering::Relaxed) == 0 => {
                panic!("on purpose: internal error: entered unreachable code")
            }
            Fault::Loses(name) if name == kernel && self.losses.fetch_add(1, Ordering::Relaxed) == 0 => {
                Err(Error::DeviceLost { device: self.info().name, reason: "unplugged".into() })
            }
            Fault::Hangs(name) if name == kernel => loop {
                std::thread::park();
            },
            Fault::Wrong(name) => Ok(Box::new(FaultyProgram { inner, wrong: name == kernel })),
            _ => Ok(inner),
        }
    }

    fn device_caps(&self) -> Option<&Caps> {
        self.inner.device_caps()
    }

    fn held_to(&self, variants: &str) -> Result<Box<dyn Backend>> {
        let inner = Arc::from(self.inner.held_to(variants)?);
        Ok(Box::new(Self { inner, fault: self.fault, losses: Arc::clone(&self.losses) }))
    }
}

#[derive(Debug)]
pub(super) struct FaultyProgram {
    inner: Box<dyn Program>,
    wrong: bool,
}

impl Program for FaultyProgram {
    fn write(&mut self, tensor: Tensor, data: &HostTensor) -> Result<()> {
        self.inner.write(tensor, data)
    }

    fn set_param_bytes(&mut self, pass: PassId, params: &[u8]) -> Result<()> {
        self.inner.set_param_bytes(pass, params)
    }

    fn run(&mut self) -> Result<Timings> {
        self.inner.run()
    }

    fn read(&mut self, tensor: Tensor) -> Result<HostTensor> {
        let mut numbers = self.inner.read(tensor)?.to_f32();
        if let (true, Some(last)) = (self.wrong, numbers.last_mut()) {
            *last += 1.0;
        }
        HostTensor::new(tensor.shape(), HostData::F32(numbers))
    }

    fn recording(&self, inputs: &[(Tensor, &HostTensor)]) -> Result<Option<Recording>> {
        self.inner.recording(inputs)
    }

    fn trace(&self) -> Result<Vec<Vec<Written>>> {
        self.inner.trace()
    }

    fn set_profiling(&mut self, on: bool) {
        self.inner.set_profiling(on);
    }

    fn schedule(&self) -> &Schedule {
        self.inner.schedule()
    }

    fn memory(&self) -> Memory {
        self.inner.memory()
    }
}

pub(super) type Cases = Vec<(&'static KernelSpec, &'static Case)>;

/// Cases of two kernels, one of which gets the fault.
pub(super) fn of_two() -> Cases {
    conformance::select(&["row_affine", "scale_rows"])
}

pub(super) fn unopened() -> std::result::Result<(), Failed> {
    let why = || Error::NoDevice { asked: "it".into(), reason: "the adapter gave no device".into() };
    let opened = Device::open("it", None, PATIENCE, Box::new(move || Err(why())));
    let said = opened.err().ok_or("it does not open")?.to_string();
    ensure!(said.contains("gave no device"), "{said}");
    let panics = || panic!("on purpose: a driver's layer");
    let opened = Device::open("it", None, PATIENCE, Box::new(panics));
    let said = opened.err().ok_or("it does not open")?.to_string();
    ensure!(said.contains("panicked"), "{said}");
    Ok(())
}

pub(super) fn hangs_opening() -> std::result::Result<(), Failed> {
    let never = || loop {
        std::thread::park();
    };
    let opened = Device::open("it", None, 0.5, Box::new(never));
    let said = opened.err().ok_or("it does not open")?.to_string();
    ensure!(said.contains("\"it\"") && said.contains("did not open it within 0.5 s"), "{said}");
    Ok(())
}

/// Rows before the hang stay, the row that hangs is broken, those after it are told, and another device runs.
pub(super) fn hangs() -> std::result::Result<(), Failed> {
    let mut device = Faulty::new(Arc::new(CpuBackend), Fault::Hangs("scale_rows")).device(Arc::default());
    let (cases, mut told) = (of_two(), 0);
    device.run(&cases, 3.0, &mut |_: &Finished<'_>| told += 1);
    ensure!(
        device.rows.len() == cases.len() && told == cases.len(),
        "{} rows, {told} told",
        device.rows.len()
    );
    let places: Vec<_> = device.rows.iter().map(|row| (row.kernel, row.case)).collect();
    let wanted: Vec<_> = cases.iter().map(|(spec, case)| (spec.name, case.name)).collect();
    ensure!(places == wanted, "in another order: {places:?}");
    let tally = device.tally();
    ensure!(tally.failed == 1 && device.fails(), "{tally:?}");
    let row = device.hung.clone().ok_or("it hung")?;
    ensure!(row.starts_with("scale_rows"), "{row}");
    let text = conformance::text(&device, false);
    ensure!(text.contains(&format!("FAILED {row}: no answer within 3 s")), "{text}");
    ensure!(text.contains(&format!("the device stopped answering in {row}")), "{text}");
    let mut other = opened(Box::new(|| Ok(Arc::new(CpuBackend))));
    other.run(&cases, PATIENCE, &mut |_: &Finished<'_>| {});
    ensure!(other.tally().passed == cases.len() && !other.fails(), "{:?}", other.tally());
    Ok(())
}

pub(super) fn lost() -> std::result::Result<(), Failed> {
    let openings = Arc::new(AtomicUsize::new(0));
    let faulty = Faulty::new(Arc::new(CpuBackend), Fault::Loses("scale_rows"));
    let mut device = faulty.device(Arc::clone(&openings));
    device.run(&of_two(), PATIENCE, &mut |_: &Finished<'_>| {});
    let tally = device.tally();
    ensure!(tally.failed == 1 && tally.passed == of_two().len() - 1, "{tally:?}");
    ensure!(openings.load(Ordering::Relaxed) == 2, "opened {openings:?} times");
    let text = conformance::text(&device, false);
    ensure!(text.contains("FAILED scale_rows") && text.contains("unplugged"), "{text}");
    Ok(())
}

pub(super) fn panicked() -> std::result::Result<(), Failed> {
    let openings = Arc::new(AtomicUsize::new(0));
    let faulty = Faulty::new(Arc::new(CpuBackend), Fault::Panics("scale_rows"));
    let mut device = faulty.device(Arc::clone(&openings));
    device.run(&of_two(), PATIENCE, &mut |_: &Finished<'_>| {});
    let (tally, text) = (device.tally(), conformance::text(&device, false));
    ensure!(tally.failed == 1 && tally.passed == of_two().len() - 1, "{tally:?}");
    ensure!(text.contains("panicked: on purpose"), "{text}");
    ensure!(openings.load(Ordering::Relaxed) == 2, "opened {openings:?} times");
    Ok(())
}

pub(super) fn refused() -> std::result::Result<(), Failed> {
    let faulty = Faulty::new(Arc::new(CpuBackend), Fault::Refuses("scale_rows"));
    let mut device = faulty.device(Arc::default());
    let folder = folder("refused").join("dump");
    let (mut dump, mut added) = (Dump::beside(&folder, false)?, Ok(()));
    device.run(&of_two(), PATIENCE, &mut |finished: &Finished<'_>| {
        if added.is_ok() {
            added = dump.add(finished);
        }
    });
    added?;
    let cases = conformance::select(&["scale_rows"]).len();
    ensure!(device.tally().failed == cases, "{:?}", device.tally());
    ensure!(dump.put_in_place()? == cases, "a reproduction for each");
    let broken = |row: &&conformance::Row| matches!(&row.outcome, Outcome::Broken(why) if why.contains("compiler error"));
    let of_it = device.rows.iter().filter(|row| row.kernel == "scale_rows");
    ensure!(of_it.filter(broken).count() == cases, "{:?}", device.rows);
    let mut shapes = fs::read_dir(&folder)?.count();
    shapes -= 1;
    ensure!(shapes == cases, "{shapes} folders for {cases} cases");
    Ok(())
}
