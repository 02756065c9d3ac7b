//! The row of a diffusion over the tokens of the picture, on the engine's device: its network with what was cut and linked, and
//! exp(−tL) of one column.

use super::{Stop, Worker};
use crate::backend::TimingSource;
use crate::error::Result;
use crate::explorer::engine::Request;
use crate::explorer::engine::machine::Machine;
use crate::explorer::networks::{Cuts, DiffusionSettings, reach};
use crate::explorer::settings::Device;
use crate::explorer::snapshot::Diffused;
use crate::explorer::tokens::Shot;
use crate::graph::Graph;
use crate::mask::network::{Diffusion, Tokens};
use crate::mask::operator::MaskOperator as _;
use crate::tensor::{DType, HostTensor};
use crate::topology::{Laplacian, Network};
use crate::vision::scene::narrow;
use std::sync::Arc;

/// Most tokens of a picture that diffuse.
const MOST_TOKENS: usize = 1 << 20;

/// Weight of a link, and of an edge between equal colours.
const LINK: f32 = 1.0;

/// What the network of a picture depends on.
#[derive(Clone, Debug, PartialEq)]
struct NetworkKey {
    shot: Shot,
    sensitivity: u64,
    corners: bool,
}

/// What a row depends on.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Key {
    shot: Shot,
    settings: DiffusionSettings,
    cuts: Cuts,
    query: u32,
    device: Device,
}

/// What was found, with what it was found for.
type Found = (Key, Arc<std::result::Result<Diffused, String>>);

/// A network with obstacles and links, and which tokens are obstacles.
type Cut = (Arc<Network>, Arc<Vec<bool>>);

/// An operator and what its matrix was made of: another time needs no other matrix.
#[derive(Debug)]
struct Made {
    network: Arc<Network>,
    laplacian: Laplacian,
    linked: bool,
    mask: Diffusion,
}

/// Networks and the row, kept until what they depend on changes.
#[derive(Debug, Default)]
pub(super) struct Diffusions {
    plain: Option<(NetworkKey, Arc<Network>)>,
    cut: Option<(NetworkKey, Cuts, Cut)>,
    made: Option<Made>,
    found: Option<Found>,
    count: u64,
}

impl Diffusions {
    /// What was found for the same.
    pub(super) fn found(&self, key: &Key) -> Option<Arc<std::result::Result<Diffused, String>>> {
        self.found.as_ref().filter(|(found, _)| found == key).map(|(_, found)| Arc::clone(found))
    }

    /// The network with obstacles and links, and which tokens are obstacles.
    fn network(&mut self, key: &Key) -> std::result::Result<Cut, String> {
        let (shot, settings) = (&key.shot, &key.settings);
        let tokens = shot.grid.tokens();
        if tokens > MOST_TOKENS {
            return Err(format!(
                "{tokens} tokens are too many: up to {MOST_TOKENS} diffuse; choose a larger stride"
            ));
        }
        let (sensitivity, corners) = (settings.sensitivity.to_bits(), settings.corners);
        let of = NetworkKey { shot: shot.clone(), sensitivity, corners };
        if let Some((found, cuts, (network, blocked))) = &self.cut
            && (found, cuts) == (&of, &key.cuts)
        {
            return Ok((Arc::clone(network), Arc::clone(blocked)));
        }
        let told = |e: crate::error::Error| e.to_string();
        let plain = match &self.plain {
            Some((found, network)) if *found == of => Arc::clone(network),
            _ => {
                let colours = shot.colours()?;
                let [rows, cols] = shot.sides();
                let tokens = Tokens { rows, cols, colours: Some(&colours) };
                let network = Arc::new(settings.mask().graph.network(&tokens).map_err(told)?);
                self.plain = Some((of.clone(), Arc::clone(&network)));
                network
            }
        };
        let blocked = Arc::new(key.cuts.blocked(&shot.grid));
        let network = match key.cuts.is_empty() {
            true => plain,
            false => {
                let links = links(&key.cuts, shot, &blocked);
                Arc::new(plain.without_nodes(&blocked).and_then(|n| n.with_edges(&links)).map_err(told)?)
            }
        };
        self.cut = Some((of, key.cuts.clone(), (Arc::clone(&network), Arc::clone(&blocked))));
        Ok((network, blocked))
    }

    fn diffuse(
        &mut self,
        machine: &Machine,
        key: &Key,
        number: u64,
        watch: &mut dyn FnMut(usize, usize) -> bool,
    ) -> std::result::Result<Diffused, Stop> {
        let cut = self.network(key).map_err(Stop::Failed)?;
        let mask = self.operator(key, &cut)?;
        run(machine, key, mask, cut, number, watch)
    }

    /// The operator on that network.
    fn operator(&mut self, key: &Key, (network, blocked): &Cut) -> Result<&Diffusion> {
        let (settings, linked) = (&key.settings, is_linked(key, blocked));
        let fits = |made: &Made| {
            Arc::ptr_eq(&made.network, network)
                && (made.laplacian, made.linked) == (settings.laplacian, linked)
        };
        let made = match self.made.take().filter(fits) {
            Some(mut made) => {
                made.mask.set_time(settings.time, settings.tolerance)?;
                made
            }
            None => Made {
                network: Arc::clone(network),
                laplacian: settings.laplacian,
                linked,
                mask: operator(network, key, linked)?,
            },
        };
        Ok(&self.made.insert(made).mask)
    }
}

/// Links between tokens that are no obstacles: they reach over those, but not onto one.
fn links(cuts: &Cuts, shot: &Shot, blocked: &[bool]) -> Vec<(u32, u32, f32)> {
    let open = |(a, b): &(u32, u32)| !blocked[*a as usize] && !blocked[*b as usize];
    cuts.linked(&shot.grid).into_iter().filter(open).map(|(a, b)| (a, b, LINK)).collect()
}

fn is_linked(key: &Key, blocked: &[bool]) -> bool {
    !links(&key.cuts, &key.shot, blocked).is_empty()
}

/// The operator, by the stencil of the grid where no link leads elsewhere.
fn operator(network: &Network, key: &Key, linked: bool) -> Result<Diffusion> {
    let settings = &key.settings;
    let mask = Diffusion::heat(network.clone(), settings.laplacian, settings.time, settings.tolerance)?;
    if linked {
        return Ok(mask);
    }
    let [rows, cols] = key.shot.sides();
    mask.on_grid(narrow("grid rows", rows)?, narrow("grid columns", cols)?, reach(settings.corners))
}

impl Worker {
    /// Question of a request; `None` where nobody asks.
    pub(super) fn diffusion_key(&self, request: &Request) -> Option<Key> {
        let features = self.features.as_ref().filter(|_| request.needs.diffusion)?;
        let shot = Shot { photo: Arc::clone(&request.photo), grid: features.grid.clone() };
        let query = features.grid.token_at(request.query).ok()? as u32;
        let (settings, cuts) = (request.diffusion.0.clone(), request.diffusion.1.clone());
        Some(Key { shot, settings, cuts, query, device: request.device.clone() })
    }

    /// Finds the row, and keeps it.
    pub(super) fn make_diffusion(
        &mut self,
        request: &Request,
        watch: &mut dyn FnMut(usize, usize) -> bool,
    ) -> std::result::Result<(), Stop> {
        let Some(key) = self.diffusion_key(request) else { return Ok(()) };
        if self.diffusions.found(&key).is_some() {
            return Ok(());
        }
        let machine = self.machine()?;
        self.diffusions.count += 1;
        let number = self.diffusions.count;
        let found = match self.diffusions.diffuse(&machine, &key, number, watch) {
            Ok(diffused) => Ok(diffused),
            // The map itself is there: what cannot diffuse is no failure of it.
            Err(Stop::Failed(why)) => Err(why),
            Err(other) => return Err(other),
        };
        self.diffusions.found = Some((key, Arc::new(found)));
        Ok(())
    }
}

fn run(
    machine: &Machine,
    key: &Key,
    mask: &Diffusion,
    (network, blocked): Cut,
    number: u64,
    watch: &mut dyn FnMut(usize, usize) -> bool,
) -> std::result::Result<Diffused, Stop> {
    let linked = is_linked(key, &blocked);
    let tokens = narrow("tokens", network.nodes())?;
    let mut graph = Graph::new("diffusion");
    let x = graph.input("one at the query", [1, 1, tokens, 1], DType::F32);
    // Row i of M is its transpose times the one of i.
    let out = mask.apply_transposed(&mut graph, x)?;
    graph.output(out)?;
    let mut stage = machine.stage(&graph, &mut |done, all| {
        watch(done, all);
    })?;
    let one = (0..tokens).map(|i| if i == key.query { 1.0 } else { 0.0 }).collect();
    stage.program().write(x, &HostTensor::f32([1, 1, tokens, 1], one)?)?;
    let Some(timings) = stage.run(watch)? else { return Err(Stop::GaveWay) };
    // As it is, though below the tolerance a truncated series may be a little negative: the command line's row is the same.
    let row = stage.program().read(out)?.to_f32();
    let measured: f64 = timings.steps.iter().map(|step| step.seconds).sum();
    let on_device = timings.source == TimingSource::Timestamp && measured > 0.0;
    Ok(Diffused {
        grid: key.shot.grid.clone(),
        settings: key.settings.clone(),
        query: key.query,
        blocked,
        row,
        terms: mask.degree(),
        rest: mask.bound(),
        seconds: if on_device { measured } else { timings.wall_seconds },
        device: machine.info().name,
        stencil: !linked,
        number,
        network,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::backend::cpu::CpuBackend;
    use crate::backend::wgpu::{Options, WgpuBackend, adapters};
    use crate::explorer::mask::Paint;
    use crate::mask::network::NetworkMask;
    use crate::vision::grid::TokenGrid;
    use crate::vision::image::Photo;
    use crate::vision::scene::{mask_rows, token_colours};
    use glam::{DVec2, UVec2};
    use std::time::Instant;

    fn key(change: impl FnOnce(&mut Key)) -> Key {
        // Dark at the left, bright at the right.
        let bytes: Vec<u8> = (0..48 * 64).flat_map(|i| [if i % 64 < 32 { 30 } else { 220 }; 3]).collect();
        let photo = Arc::new(Photo::from_rgb8("halves", 64, 48, bytes).expect("a picture"));
        let grid = TokenGrid::plan(UVec2::new(64, 48), 8, 8, 1000).expect("a grid");
        let mut key = Key {
            shot: Shot { photo, grid },
            settings: DiffusionSettings { time: 20.0, tolerance: 1e-6, ..DiffusionSettings::default() },
            cuts: Cuts::default(),
            query: 2 * 8 + 1,
            device: Device::Named("cpu".into()),
        };
        change(&mut key);
        key
    }

    fn found(key: &Key) -> Diffused {
        found_by(&mut Diffusions::default(), key)
    }

    fn found_by(diffusions: &mut Diffusions, key: &Key) -> Diffused {
        diffusions.diffuse(&Machine::Cpu, key, 1, &mut |_, _| true).expect("a row")
    }

    fn sum(row: &[f32], which: impl Fn(usize) -> bool) -> f64 {
        row.iter().enumerate().filter(|(t, _)| which(*t)).map(|(_, w)| f64::from(*w)).sum()
    }

    #[test]
    fn it_stays_among_like_colours_and_rows_are_those_of_the_oracle() {
        for (name, laplacian) in Laplacian::ALL {
            let key = key(|key| key.settings.laplacian = laplacian);
            let found = found(&key);
            let (left, right) = (found.row[2 * 8 + 3], found.row[2 * 8 + 4]);
            assert!(left > 20.0 * right, "{name}: {left} {right}");
            assert!(found.terms > 5 && found.rest <= 1e-6 && found.stencil);
            let oracle = operator(&found.network, &key, false).and_then(|m| m.row(key.query)).expect("a row");
            for (t, (w, expected)) in found.row.iter().zip(oracle).enumerate() {
                assert!((f64::from(*w) - expected).abs() < 5e-6, "{name} {t}: {w} {expected}");
            }
            let total = sum(&found.row, |_| true);
            assert!(laplacian == Laplacian::Symmetric || (total - 1.0).abs() < 1e-4, "{name}: {total}");
        }
    }

    /// A picture with colours in it, whose size no stride divides, reduced to keep to few tokens or not.
    fn coloured(max_tokens: usize) -> Key {
        let (width, height) = (61, 43);
        let colour = |i: u32| [(i % width * 4) as u8, (i / width * 5) as u8, (i * i % 251) as u8];
        let bytes: Vec<u8> = (0..width * height).flat_map(colour).collect();
        let size = UVec2::new(width, height);
        key(|key| {
            key.shot.photo = Arc::new(Photo::from_rgb8("colours", width, height, bytes).expect("a picture"));
            key.shot.grid = TokenGrid::plan(size, 8, 4, max_tokens).expect("a grid");
            key.query = key.shot.grid.token_at(UVec2::new(30, 20)).expect("a token") as u32;
        })
    }

    #[test]
    fn rows_are_those_of_the_command_line() {
        for max_tokens in [1000, 60] {
            for (name, laplacian) in Laplacian::ALL {
                let mut key = coloured(max_tokens);
                key.settings.laplacian = laplacian;
                let found = found(&key);
                let (photo, grid) = (&key.shot.photo, &key.shot.grid);
                let colours = token_colours(&photo.working(grid.working_size()).expect("reduced"), grid);
                let [rows, cols] = key.shot.sides();
                let tokens = Tokens { rows, cols, colours: Some(&colours) };
                // By way of its words, as the command line has it.
                let mask = key.settings.mask();
                let spec = mask.spec.to_string().parse().expect("a mask");
                let graph = mask.graph.to_string().parse().expect("a graph");
                let made = NetworkMask { spec, graph }.operator(&tokens).expect("a mask");
                let said = mask_rows(&CpuBackend, &made, &[key.query]).expect("a row").rows;
                let most = said[0].iter().copied().fold(0.0, f32::max);
                let worst = found.row.iter().zip(&said[0]).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
                assert!(worst <= 1e-5 * most, "{name}, {} tokens: {worst:e} of {most}", grid.tokens());
            }
        }
    }

    #[test]
    fn what_is_kept_for_another_time_gives_the_same_row() {
        let mut kept = Diffusions::default();
        for (name, laplacian) in Laplacian::ALL {
            for (time, tolerance, linked) in
                [(20.0, 1e-6, false), (3.0, 1e-3, false), (50.0, 1e-6, true), (0.0, 1e-6, true)]
            {
                let key = key(|key| {
                    (key.settings.laplacian, key.settings.time, key.settings.tolerance) =
                        (laplacian, time, tolerance);
                    key.cuts.links = if linked { vec![[[4, 4], [60, 40]]] } else { Vec::new() };
                });
                let (again, anew) = (found_by(&mut kept, &key), found(&key));
                let what = format!("{name} t = {time} linked {linked}");
                assert_eq!(
                    (again.row, again.terms, again.stencil),
                    (anew.row, anew.terms, !linked),
                    "{what}"
                );
            }
        }
        // What cannot be leaves nothing behind that could be taken for it.
        let wrong = key(|key| key.settings.time = -1.0);
        assert!(kept.diffuse(&Machine::Cpu, &wrong, 1, &mut |_, _| true).is_err());
        let right = key(|_| {});
        assert_eq!(found_by(&mut kept, &right).row, found(&right).row);
    }

    /// Prints what a change of t costs where every pixel of the built-in photograph is a token. No assertion on times: machines differ.
    #[test]
    fn times_of_a_change_of_t() {
        let photo = Arc::new(crate::source::built_in::photo().expect("the photograph"));
        let grid = TokenGrid::plan(photo.size(), 8, 1, 1_000_000).expect("a grid");
        let mut key = key(|key| {
            (key.shot.photo, key.shot.grid) = (photo, grid);
            (key.query, key.settings) = (451 * 96 + 214, DiffusionSettings::default());
        });
        let milliseconds = |since: Instant| format!("{:.0} ms", 1e3 * since.elapsed().as_secs_f64());
        for adapter in adapters().iter().take(1) {
            let backend = WgpuBackend::on_adapter(adapter, Options::default()).expect("a device");
            let (machine, mut diffusions) = (Machine::Wgpu(backend, false), Diffusions::default());
            for (number, time) in [60.0, 61.0, 62.0, 62.1].into_iter().enumerate() {
                key.settings.time = time;
                let since = Instant::now();
                let cut = diffusions.network(&key).expect("a network");
                let mask = diffusions.operator(&key, &cut).expect("an operator");
                let made = milliseconds(since);
                let mut recorded = None;
                let mut watch = |_, _| {
                    recorded.get_or_insert_with(|| milliseconds(since));
                    true
                };
                let found = run(&machine, &key, mask, cut, number as u64, &mut watch).expect("a row");
                let all = milliseconds(since);
                println!(
                    "{}, t = {time}, K = {}: operator after {made}, recorded after {recorded:?}, row after {all}",
                    found.device, found.terms
                );
            }
        }
    }

    #[test]
    fn obstacles_cut_off_and_links_join() {
        let photo = UVec2::new(64, 48);
        let wall = |key: &mut Key| {
            key.settings.sensitivity = 0.0;
            key.cuts.obstacles.rectangle(photo, DVec2::new(32.5, 0.0), DVec2::new(39.5, 48.0), Paint::Hidden);
        };
        let beyond = |t: usize| t % 8 > 4;
        let walled = found(&key(wall));
        assert_eq!(walled.blocked.iter().filter(|b| **b).count(), 6);
        assert_eq!(sum(&walled.row, beyond), 0.0, "nothing gets through");
        let linked = found(&key(|key| {
            wall(key);
            key.cuts.links = vec![[[4, 4], [60, 40]], [[4, 4], [36, 4]]];
        }));
        assert!(!linked.stencil && sum(&linked.row, beyond) > 0.01, "{:?}", linked.row);
        assert_eq!(linked.row[4], 0.0, "a link onto an obstacle is none");
        let alone = found(&key(|key| {
            wall(key);
            key.query = 4;
        }));
        assert!(
            (alone.row[4] - 1.0).abs() < 1e-5 && sum(&alone.row, |t| t != 4) == 0.0,
            "it sees itself alone"
        );
    }
}
