//! What holds for attention under any mask: a table of mask families × invariants (method: topological masking, section 5), one
//! trial for each pair on every device.
//!
//! The families are scans, tables of relative positions both ways, global tokens, packed sequences, keys left out, and mask operators.
//! What a family should give is computed here in f64 from its definition, weight by weight.

use families::{B, E, Family, H, How, N, all_ones, families, identities, special_cases};
use invariants::{INVARIANTS, Inputs, Runner, Subject, adjoint, close, separate, tolerance};
use libtest_mimic::{Arguments, Trial};
use std::sync::Arc;
use wgattn::attention::{Mask, ScanMask};
use wgattn::backend::{Backend, cpu::CpuBackend};
use wgattn::kernels::mask::path::Path;
use wgattn::mask::operator::{SharedMask, Toeplitz};

mod families;
mod invariants;
#[path = "../support/mod.rs"]
mod support;

fn main() {
    let args = Arguments::from_args();
    let found = support::adapters_by_name();
    let mut devices: Vec<(String, Arc<dyn Backend>)> = vec![("cpu".into(), Arc::new(CpuBackend))];
    devices.extend(support::backends().into_iter().map(|(name, b)| (name, Arc::new(b) as Arc<dyn Backend>)));
    let mut trials = Vec::new();
    for (device, backend) in &devices {
        let subject = |family: Family| Subject {
            family: Arc::new(family),
            device: device.clone(),
            backend: Arc::clone(backend),
            runner: Arc::default(),
        };
        let named = |what: &str, name: &str| format!("{what}::{name}::{device}");
        for family in families() {
            let subject = subject(family);
            let family = Arc::clone(&subject.family);
            for (what, test, about) in INVARIANTS {
                if about(&family) {
                    let subject = subject.clone();
                    trials.push(Trial::test(named(what, &family.name), move || test(&subject)));
                }
            }
            if family.segments().is_some() {
                let subject = subject.clone();
                let name = named("packed_sequences_are_what_they_are_alone", &family.name);
                trials.push(Trial::test(name, move || separate(&subject)));
            }
            let mask: SharedMask = match &family.how {
                How::Operator(mask) => Arc::clone(mask),
                // The table as an operator, once.
                How::Attention(attention) => match &attention.mask {
                    Mask::Table { table, globals: 0 }
                        if attention.path == Path::Pairs
                            && family.keep.is_none()
                            && family.segments().is_none() =>
                    {
                        Arc::new(Toeplitz(table.clone()))
                    }
                    _ => continue,
                },
            };
            if family.keep.is_none() {
                let (device, backend) = (device.clone(), Arc::clone(backend));
                let name = named("products_have_their_adjoint", &family.name);
                trials.push(Trial::test(name, move || adjoint(&device, backend.as_ref(), &mask)));
            }
        }
        for family in identities() {
            let subject = subject(family);
            let name = named("the_identity_gives_values_back", &subject.family.name);
            trials.push(Trial::test(name, move || {
                let x = Inputs::new();
                let got = subject.with(|runner| Ok(runner.run(&x)?))?;
                let mut values: Vec<f64> = x.v.iter().map(|v| f64::from(*v)).collect();
                for token in subject.family.unused() {
                    (0..(B * H) as usize).for_each(|batch| {
                        values[(batch * N as usize + token as usize) * E as usize..][..E as usize].fill(0.0);
                    });
                }
                close("values", &got, &values, tolerance(&subject.device))
            }));
        }
        for family in all_ones() {
            let subject = subject(family);
            let name = named("equal_weights_are_no_mask", &subject.family.name);
            trials.push(Trial::test(name, move || {
                let x = Inputs::new();
                let none = Family::scan("none", ScanMask::None);
                let unmasked = Runner::new(&CpuBackend, &none.how, None)?.run(&x)?;
                let got = subject.with(|runner| Ok(runner.run(&x)?))?;
                close("unmasked", &got, &unmasked, tolerance(&subject.device))
            }));
        }
        for (what, family, same) in special_cases() {
            let (subject, same) = (subject(family), subject(same));
            trials.push(Trial::test(named("one_is_the_other", &what), move || {
                let x = Inputs::new();
                let [got, expected] = [&subject, &same].map(|s| s.with(|runner| Ok(runner.run(&x)?)));
                // Weights of tables are rounded to f32, those of scans are powers of rounded numbers.
                close(&same.family.name, &got?, &expected?, tolerance(&subject.device).max(2e-6))
            }));
        }
    }
    for missing in support::missing_adapters(&found) {
        let reason = format!("no {missing} adapter on this machine");
        trials.push(support::absent(&format!("adapter::{missing}"), &reason, support::required(&missing)));
    }
    libtest_mimic::run(&args, trials).exit();
}
