//! Which rows are run, at which sizes, and in which order.

use super::variants_of;
use crate::error::{Error, Result};
use crate::graph::human_bytes;
use crate::kernel::case::Concrete;
use crate::kernel::{Case, KernelSpec};
use crate::kernels::{KERNELS, find};
use crate::tensor::Dims;
use crate::words::{counted, nearest, plural};
use serde_json::Value;

/// One row to measure: a case of a kernel, at its own sizes or others, held to a variant or free.
#[derive(Clone, Debug)]
pub struct Job {
    /// The kernel.
    pub spec: &'static KernelSpec,
    /// The case whose parameters and fills it takes.
    pub case: &'static Case,
    /// Sizes, where they are not the case's.
    pub sizes: Option<Dims>,
    /// Name of the case, with what differs from it: `softmax_1024 [n=2048 m=2048]`.
    pub name: String,
    /// Variant that the kernel is held to.
    pub variant: Option<&'static str>,
}

impl Job {
    /// A case as it is.
    pub fn of(spec: &'static KernelSpec, case: &'static Case) -> Self {
        Self { spec, case, sizes: None, name: case.name.into(), variant: None }
    }

    /// Kernel, case and variant in one line.
    pub fn label(&self) -> String {
        let variant = self.variant.map_or_else(String::new, |v| format!(" as {v}"));
        format!("{}/{}{variant}", self.spec.name, self.name)
    }

    /// Its sizes.
    pub fn dims(&self) -> Dims {
        self.sizes.clone().unwrap_or_else(|| Dims::of(self.case.dims))
    }

    /// Bytes of all its tensors.
    pub fn bytes(&self) -> f64 {
        bytes(self.spec, self.case, &self.dims())
    }

    /// Its tensors.
    ///
    /// Errors: [`Error::Value`] for sizes that the case or its kernel refuses; [`plan`] gives none of these.
    pub fn concrete(&self) -> Result<Concrete> {
        let Some(sizes) = &self.sizes else { return Concrete::of(self.spec, self.case) };
        let (dims, params) = self.case.at(self.spec, sizes).map_err(|why| {
            let expected = "sizes that the case can take";
            Error::value(format!("sizes of {}", self.label()), expected, why, "leave this size out")
        })?;
        Ok(Concrete { params, ..Concrete::with_dims(self.spec, self.case, dims)? })
    }
}

/// Tensors of a row that is planned take at most this: 4 TiB.
const MOST_BYTES: f64 = (1_u64 << 42) as f64;

/// Bytes of all tensors of a case at these sizes.
fn bytes(spec: &KernelSpec, case: &Case, dims: &Dims) -> f64 {
    let size = |name: &&str| name.parse::<f64>().unwrap_or_else(|_| f64::from(dims.size(name)));
    let ports = spec.ports.iter().filter(|p| !case.absent.contains(&p.name));
    ports.map(|p| p.dtype.bytes() as f64 * p.dims.iter().map(size).product::<f64>()).sum()
}

/// A case that is not run at some of the sizes that were asked for, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct LeftOut {
    /// Kernel and case.
    pub case: String,
    /// The sizes: `n=1000`; none where it has not the dimension at all.
    pub sizes: Vec<String>,
    /// Why, at the first of these.
    pub why: String,
}

impl LeftOut {
    /// One sentence for each case; those that lack a dimension together.
    pub fn told(all: &[Self]) -> Vec<String> {
        let (without, at_some): (Vec<&Self>, Vec<&Self>) = all.iter().partition(|l| l.sizes.is_empty());
        let mut told: Vec<String> = at_some
            .iter()
            .map(|l| format!("{} is left out at {}: {}", l.case, l.sizes.join(", "), l.why))
            .collect();
        let mut reasons: Vec<&str> = without.iter().map(|l| l.why.as_str()).collect();
        reasons.dedup();
        for why in reasons {
            let cases: Vec<&str> = without.iter().filter(|l| l.why == why).map(|l| l.case.as_str()).collect();
            let which = match &cases[..] {
                few if few.len() <= MOST_NAMES => few.join(", "),
                many => counted(many.len(), "case", "cases"),
            };
            told.push(format!("{which} {} left out: {why}", plural(cases.len(), "is", "are")));
        }
        told
    }
}

/// Sizes to run cases at beside their own.
#[derive(Clone, Debug, Default)]
pub struct Sweep {
    /// Tokens: dimension `n`, and keys and lines of the same length.
    pub tokens: Vec<u32>,
    /// Landmarks: dimension `m` where it is not a number of tokens.
    pub landmarks: Vec<u32>,
    /// Heads: dimension `h`.
    pub heads: Vec<u32>,
    /// Coordinates of a head: dimension `d`, and values of the same width.
    pub head_dim: Vec<u32>,
}

impl Sweep {
    /// Whether there is anything to run at.
    pub fn is_empty(&self) -> bool {
        [&self.tokens, &self.landmarks, &self.heads, &self.head_dim].iter().all(|l| l.is_empty())
    }
}

/// Dimensions that change together with one: those of the same size among these.
fn followers(name: &str) -> &'static [&'static str] {
    match name {
        "n" => &["m", "t", "l", "p", "ar", "ac", "wr", "wc"],
        "h" => &["heads", "bandwidths", "tables"],
        "d" => &["e", "p", "r"],
        _ => &[],
    }
}

/// The sizes of a case with one dimension replaced; `None` where it has no such dimension.
fn replaced(dims: &Dims, name: &'static str, size: u32) -> Option<Dims> {
    let old = dims.find(name)?;
    // Landmarks share their letter with keys, which are as many as the tokens.
    if name == "m" && dims.find("n") == Some(old) {
        return None;
    }
    let mut new = dims.clone();
    new.set(name, size);
    for follower in followers(name) {
        if dims.find(follower) == Some(old) {
            new.set(follower, size);
        }
    }
    Some(new)
}

/// One case at all sizes of a sweep, each combined with each, and where it cannot run.
fn swept(job: &Job, sweep: &Sweep) -> (Vec<Job>, Option<LeftOut>) {
    let own = Dims::of(job.case.dims);
    let case = format!("{}/{}", job.spec.name, job.case.name);
    let axes: Vec<(&'static str, &str, &Vec<u32>)> = [
        ("n", "tokens n (--n)", &sweep.tokens),
        ("m", "landmarks m (--landmarks)", &sweep.landmarks),
        ("h", "heads h (--heads)", &sweep.heads),
        ("d", "coordinates d (--d)", &sweep.head_dim),
    ]
    .into_iter()
    .filter(|(_, _, list)| !list.is_empty())
    .collect();
    if let Some((_, words, _)) = axes.iter().find(|(name, _, _)| replaced(&own, name, 1).is_none()) {
        return (Vec::new(), Some(LeftOut { case, sizes: Vec::new(), why: format!("without {words}") }));
    }
    let mut sizes = vec![(own.clone(), Vec::new())];
    for (name, _, list) in axes {
        let at = |(dims, asked): &(Dims, Vec<(&'static str, u32)>)| {
            let one = |size: &u32| {
                Some((replaced(dims, name, *size)?, asked.iter().copied().chain([(name, *size)]).collect()))
            };
            list.iter().filter_map(one).collect::<Vec<_>>()
        };
        sizes = sizes.iter().flat_map(at).collect();
    }
    let mut jobs = Vec::new();
    let mut left_out: Option<LeftOut> = None;
    for (dims, asked) in sizes {
        match at_sizes(job, &own, &dims, &asked) {
            Ok(job) => jobs.push(job),
            Err(why) => {
                let all = left_out.get_or_insert(LeftOut { case: case.clone(), sizes: Vec::new(), why });
                all.sizes.push(in_words(&asked));
            }
        }
    }
    (jobs, left_out)
}

fn in_words(sizes: &[(&'static str, u32)]) -> String {
    sizes.iter().map(|(name, size)| format!("{name}={size}")).collect::<Vec<_>>().join(" ")
}

/// A case at other sizes.
///
/// Errors: why it cannot have these, in words.
fn at_sizes(job: &Job, own: &Dims, dims: &Dims, asked: &[(&'static str, u32)]) -> Result<Job, String> {
    // Before anything multiplies sizes, and again for what follows from them. What this machine cannot hold fails as a row.
    let fits = |dims: &Dims| match bytes(job.spec, job.case, dims) {
        bytes if bytes <= MOST_BYTES => Ok(()),
        bytes => Err(format!("its tensors take {}, which no machine holds", human_bytes(bytes as u64))),
    };
    fits(dims)?;
    let dims = job.case.at(job.spec, dims)?.0;
    fits(&dims)?;
    if let Some((name, size)) = asked.iter().find(|(name, size)| dims.find(name) != Some(*size)) {
        return Err(format!(
            "`{name}` follows from other sizes, and is {} there, not {size}",
            dims.size(name)
        ));
    }
    let differs: Vec<(&'static str, u32)> =
        dims.iter().filter(|(name, size)| own.find(name) != Some(*size)).collect();
    if differs.is_empty() {
        return Ok(job.clone());
    }
    let name = format!("{} [{}]", job.case.name, in_words(&differs));
    Ok(Job { name, sizes: Some(dims), ..job.clone() })
}

/// What to run.
#[derive(Clone, Debug, Default)]
pub struct Wanted {
    /// Parts of kernels' names, of which one must fit; probes come only when asked for. Empty: all but the probes.
    pub filters: Vec<String>,
    /// Part of the case's name.
    pub case: Option<String>,
    /// A variant to hold kernels to, or `all` for each of them.
    pub variant: Option<String>,
    /// Only the rows of the fixed set, where nothing else was asked for.
    pub quick: bool,
    /// Sizes.
    pub sweep: Sweep,
}

/// What runs, and what does not although it fits the words that were asked for.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// The rows, in the order of the list of kernels.
    pub jobs: Vec<Job>,
    /// Cases that cannot run at sizes of the sweep.
    pub left_out: Vec<LeftOut>,
}

/// The rows that are wanted.
///
/// Errors: [`Error::Value`] for a filter, a case or a variant that nothing fits, and where nothing is left to run.
pub fn plan(wanted: &Wanted) -> Result<Plan> {
    let asked = !wanted.filters.is_empty() || wanted.case.is_some() || wanted.variant.is_some();
    let jobs: Vec<Job> = if wanted.quick && !asked && wanted.sweep.is_empty() {
        super::score::rows().into_iter().map(|(spec, case)| Job::of(spec, case)).collect()
    } else {
        wanted.filters.iter().try_for_each(|filter| known(filter))?;
        let cases = super::select(&wanted.filters, wanted.case.as_deref());
        cases.into_iter().map(|(spec, case)| Job::of(spec, case)).collect()
    };
    if jobs.is_empty() || wanted.case.as_deref() == Some("") {
        let of_kernels = super::select(&wanted.filters, None);
        return Err(unknown(
            "--case",
            wanted.case.as_deref().unwrap_or_default(),
            of_kernels.iter().map(|c| c.1.name),
        ));
    }
    let held: Vec<Job> = jobs.iter().flat_map(|job| held(job, wanted.variant.as_deref())).collect();
    if held.is_empty() {
        let variant = wanted.variant.clone().unwrap_or_default();
        let mut names: Vec<&str> = jobs.iter().flat_map(|j| variants_of(j.spec)).collect();
        names.sort_unstable();
        names.dedup();
        if names.is_empty() {
            let expected = "a kernel with variants";
            return Err(Error::value("--variant", expected, "kernels composed of others", "leave it out"));
        }
        return Err(Error::value(
            "--variant",
            format!("one of the kernels that fit: {}", some_of(&nearest(&variant, names.iter().copied()))),
            format!("{variant:?}"),
            "see `wgattn shaders KERNEL`",
        ));
    }
    let mut plan = Plan::default();
    for job in &held {
        let (jobs, left_out) = swept(job, &wanted.sweep);
        plan.jobs.extend(jobs);
        plan.left_out.extend(left_out);
    }
    let mut seen = std::collections::HashSet::new();
    plan.jobs.retain(|job| seen.insert(job.label()));
    // A case that was held to several variants is told once.
    let mut seen = std::collections::HashSet::new();
    plan.left_out.retain(|left| seen.insert(left.case.clone()));
    match plan.jobs.is_empty() {
        false => Ok(plan),
        true => {
            let why = LeftOut::told(&plan.left_out);
            let more = match why.len() {
                0..=MOST_NAMES => String::new(),
                all => format!("; and {} more", all - MOST_NAMES),
            };
            let got = why[..why.len().min(MOST_NAMES)].join("; ") + &more;
            Err(Error::value(
                "sizes",
                "a case that can run at them",
                got,
                "ask for other sizes, or for other kernels",
            ))
        }
    }
}

/// Names of the tables of `wgattn bench`, which are asked for like kernels.
pub const TABLES: [&str; 4] = ["scaling", "masked", "graph", "position"];

/// Names that a message suggests at most.
const MOST_NAMES: usize = 3;

/// Refuses a word that is part of no kernel's name.
fn known(filter: &str) -> Result<()> {
    let kernels = KERNELS.iter().filter(|k| k.cases.iter().any(|c| c.bench)).map(|k| k.name);
    match !filter.is_empty() && kernels.clone().any(|name| name.contains(filter)) {
        true => Ok(()),
        false => Err(unknown(
            "kernel, suite or table",
            filter,
            kernels.chain(super::suites::names()).chain(TABLES),
        )),
    }
}

fn unknown<'a>(what: &str, word: &str, names: impl Iterator<Item = &'a str>) -> Error {
    let expected = format!("a part of a name such as {}", some_of(&nearest(word, names)));
    Error::value(what, expected, format!("{word:?}"), "`wgattn bench --list` prints all of them")
}

fn some_of(names: &[&str]) -> String {
    names.join(", ")
}

/// A row for each variant that was asked for; one for the device's own choice where none was.
fn held(job: &Job, asked: Option<&str>) -> Vec<Job> {
    let names = variants_of(job.spec);
    let as_variant = |variant: &'static str| Job { variant: Some(variant), ..job.clone() };
    match asked {
        None => vec![job.clone()],
        Some("all") if names.is_empty() => vec![job.clone()],
        Some("all") => names.into_iter().map(as_variant).collect(),
        Some(name) => names.into_iter().filter(|n| *n == name).map(as_variant).collect(),
    }
}

/// A random order of so many rows, the same for the same seed.
pub fn order(count: usize, seed: u64) -> Vec<usize> {
    let mut state = seed;
    // splitmix64, enough for an order.
    let mut next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    };
    let mut places: Vec<usize> = (0..count).collect();
    for last in (1..count).rev() {
        places.swap(last, (next() % (last as u64 + 1)) as usize);
    }
    places
}

/// A list of sizes as it is written: `49`, `1k,4k`, `1k..1M` for every doubling from the first to the last (k = 1024, M = 1024²).
///
/// Errors: what is wrong, in words.
pub fn parse_sizes(text: &str) -> Result<Vec<u32>, String> {
    let mut sizes = Vec::new();
    for word in text.split(',').map(str::trim) {
        let Some((first, last)) = word.split_once("..") else {
            sizes.push(parse_size(word)?);
            continue;
        };
        let (first, last) = (parse_size(first)?, parse_size(last)?);
        if first > last {
            return Err(format!("{word}: the first size is larger than the last"));
        }
        let doublings = std::iter::successors(Some(first), |s| s.checked_mul(2)).take_while(|s| *s <= last);
        sizes.extend(doublings);
    }
    Ok(sizes)
}

fn parse_size(word: &str) -> Result<u32, String> {
    let (digits, unit) = match word.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1024),
        None => word.strip_suffix('M').map_or((word, 1), |digits| (digits, 1024 * 1024)),
    };
    let whole = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    // Digits that are too many even for this are too large all the same.
    let size = digits.parse().unwrap_or(u64::MAX).saturating_mul(unit);
    match u32::try_from(size) {
        Ok(size @ 1..) if whole => Ok(size),
        _ => Err(format!(
            "{word:?}: expected a whole number from 1 to {}, with k for 1024 or M for 1024² after it if need be, or A..B",
            u32::MAX
        )),
    }
}

/// The kernel and case of a row that a file names.
pub(super) fn case_of(row: &Value) -> Option<(&'static KernelSpec, &'static Case)> {
    let spec = find(row["kernel"].as_str()?)?;
    Some((spec, spec.cases.iter().find(|c| c.bench && row["case"] == c.name)?))
}

/// A number that changes when any of the kernel's WGSL does: FNV-1a of 64 bits over the texts of all variants; `None` for kernels that
/// are composed of others.
pub fn hash(spec: &KernelSpec) -> Option<u64> {
    let crate::kernel::OnWgpu::Shader(variants) = &spec.wgpu else { return None };
    let texts = variants
        .iter()
        .flat_map(|v| [v.name].into_iter().chain(v.shared.iter().map(|s| s.body)).chain([v.body]));
    let fold = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    Some(texts.flat_map(str::bytes).fold(0xcbf2_9ce4_8422_2325, fold))
}

/// All kernels by name with their hashes as 16 hexadecimal digits.
pub(super) fn hashes() -> Value {
    let text = |spec: &KernelSpec| hash(spec).map(|h| format!("{h:016x}"));
    KERNELS.iter().map(|spec| (spec.name.to_string(), serde_json::json!(text(spec)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(wanted: &Wanted) -> Vec<String> {
        plan(wanted).expect("something fits").jobs.iter().map(Job::label).collect()
    }

    fn of(filters: &[&str]) -> Wanted {
        Wanted { filters: filters.iter().map(|f| (*f).to_string()).collect(), ..Wanted::default() }
    }

    #[test]
    fn sizes_are_lists_and_doublings() {
        assert_eq!(parse_sizes("49"), Ok(vec![49]));
        assert_eq!(parse_sizes("1k, 3k"), Ok(vec![1024, 3072]));
        assert_eq!(parse_sizes("256..2k,9"), Ok(vec![256, 512, 1024, 2048, 9]));
        assert_eq!(parse_sizes("1k..1M").map(|s| s.len()), Ok(11));
        for bad in ["", "0", "-1", "1.5", "k", "4k..1k", "9999999M", "1k..", "1G"] {
            assert!(parse_sizes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn dimensions_of_one_meaning_change_together() {
        let at = |filter: &str, case: &str, sweep: Sweep| {
            names(&Wanted { case: Some(case.into()), sweep, ..of(&[filter]) })
        };
        let tokens = Sweep { tokens: vec![512, 1024], ..Sweep::default() };
        let rows = at("exact_attention", "softmax_1024", tokens.clone());
        assert!(rows.contains(&"exact_attention/softmax_1024 [n=512 m=512]".to_string()), "{rows:?}");
        assert!(
            rows.contains(&"exact_attention/softmax_1024".to_string()),
            "its own size has its own name: {rows:?}"
        );
        let rows = at("kernel_matrix", "3136x49", Sweep { landmarks: vec![64], ..tokens });
        assert_eq!(
            rows,
            ["kernel_matrix/tokens_3136x49 [n=512 m=64]", "kernel_matrix/tokens_3136x49 [n=1024 m=64]"]
        );
        let rows = at(
            "nystrom_row",
            "tokens_16384",
            Sweep { landmarks: vec![62], heads: vec![2], ..Sweep::default() },
        );
        assert_eq!(rows, ["nystrom_row/tokens_16384 [h=2 m=62 mw=64]"]);
        let rows = at("exact_attention", "softmax_1024", Sweep { head_dim: vec![32], ..Sweep::default() });
        assert!(rows[0].contains("[d=32 e=32]"), "{rows:?}");
    }

    #[test]
    fn a_size_that_is_refused_says_why() {
        let at = |filters: &[&str], tokens: &[u32]| {
            let sweep = Sweep { tokens: tokens.to_vec(), ..Sweep::default() };
            plan(&Wanted { sweep, ..of(filters) })
        };
        // A length that the transform does not have, beside one that it has.
        let some = at(&["fft"], &[1000, 1024, 1001]).expect("one of them fits");
        assert!(
            some.jobs.iter().any(|job| job.label() == "fft/lines_512 [n=1024 l=1024]"),
            "{:?}",
            some.jobs
        );
        let left = some.left_out.iter().find(|l| l.case == "fft/lines_512").expect("two are left out");
        assert_eq!(left.sizes, ["n=1000", "n=1001"]);
        assert!(left.why.contains("2^a 3^b"), "{left:?}");
        // A case whose data are its own, and one without the dimension.
        let error = at(&["graph_attention", "stencil_step"], &[1000]).expect_err("none fits").to_string();
        for told in [
            "graphs_128_of_100",
            "n=1000",
            "`offsets`",
            "stencil_step",
            "without tokens n (--n)",
            "other sizes",
        ] {
            assert!(error.contains(told), "{told}: {error}");
        }
        // What no machine holds is left out before any of it is made.
        let error = at(&["distance_product"], &[u32::MAX]).expect_err("too large").to_string();
        assert!(error.contains("which no machine holds"), "{error}");
    }

    /// Every case at a few sizes of every dimension that it has: what is planned has shapes that fit the kernel, and the dimension has
    /// the size that was asked for. These cases alone are bound to their own sizes.
    #[test]
    fn cases_that_are_planned_at_other_sizes_fit_their_kernels() {
        let fixed = ["graph_attention", "tree_collect", "tree_spread", "tree_gather", "fft_pass"];
        let list = |sizes: &[u32]| sizes.to_vec();
        let mut planned = std::collections::BTreeSet::new();
        let mut refused = std::collections::BTreeMap::new();
        for (name, sizes) in [
            ("n", list(&[1, 16, 36, 60, 64, 256])),
            ("m", list(&[1, 5, 49, 64, 200])),
            ("h", list(&[1, 2, 3])),
            ("d", list(&[1, 5, 16, 64])),
        ] {
            for (spec, case) in crate::bench::select(&[], None) {
                let mut sweep = Sweep::default();
                match name {
                    "n" => sweep.tokens = sizes.clone(),
                    "m" => sweep.landmarks = sizes.clone(),
                    "h" => sweep.heads = sizes.clone(),
                    _ => sweep.head_dim = sizes.clone(),
                }
                let at = format!("{}/{} {name}", spec.name, case.name);
                let (jobs, left_out) = swept(&Job::of(spec, case), &sweep);
                let has = replaced(&Dims::of(case.dims), name, 1).is_some();
                let left = left_out.as_ref().map_or(0, |l| l.sizes.len());
                assert_eq!(jobs.len() + left, if has { sizes.len() } else { 0 }, "{at}");
                if let Some(left) = left_out.filter(|_| has) {
                    assert!(!left.why.is_empty() && jobs.len() + left.sizes.len() == sizes.len(), "{at}");
                    if jobs.is_empty() {
                        refused.insert(at.clone(), left.why);
                    }
                }
                for job in jobs {
                    assert!(sizes.contains(&job.dims().size(name)), "{at}: {:?}", job.dims());
                    // Small ones only: their data are made.
                    if job.bytes() < 8e6 {
                        let made = job.concrete().and_then(|c| c.graph().map(drop));
                        assert!(made.is_ok(), "{}: {made:?}", job.label());
                    }
                    if job.sizes.is_some() {
                        planned.insert(spec.name);
                    }
                }
            }
        }
        println!("{refused:#?}");
        for (spec, _) in crate::bench::select(&[], None) {
            let has = spec.dim_names().iter().any(|d| ["n", "h", "d"].contains(d));
            assert!(!has || planned.contains(spec.name) != fixed.contains(&spec.name), "{}", spec.name);
        }
    }

    #[test]
    fn nothing_that_fits_is_told_with_what_there_is() {
        let case = |part: &str| Wanted { case: Some(part.into()), ..of(&["matmul"]) };
        for (wanted, told) in [
            // One that is unknown beside one that is known, and a slip.
            (of(&["matmul", "nothing_like_this"]), "\"nothing_like_this\""),
            (of(&["mtmul"]), "such as matmul,"),
            (of(&["crosover"]), "such as crossover,"),
            (of(&["sclaing"]), "such as scaling,"),
            (of(&[""]), "--list"),
            (case("sqare_512"), "square_512"),
            (case(""), "--list"),
            (Wanted { variant: Some("tile46".into()), ..of(&["matmul"]) }, "tile64"),
            (
                Wanted { sweep: Sweep { head_dim: vec![8], ..Sweep::default() }, ..of(&["transpose"]) },
                "without coordinates d (--d)",
            ),
        ] {
            let error = plan(&wanted).expect_err("nothing fits").to_string();
            assert!(error.contains(told), "{error}");
        }
    }

    #[test]
    fn several_filters_add_up_and_probes_come_only_when_asked_for() {
        let both = names(&of(&["transpose", "scan"]));
        assert!(
            both.iter().any(|n| n.starts_with("transpose/")) && both.iter().any(|n| n.starts_with("scan/"))
        );
        assert!(!names(&of(&[])).iter().any(|n| n.starts_with("probe_")));
        assert!(names(&of(&["probe"])).iter().all(|n| n.starts_with("probe_")));
    }

    #[test]
    fn an_order_is_a_permutation_of_its_seed() {
        let mut shuffled = order(50, 7);
        assert_eq!(shuffled, order(50, 7));
        assert_ne!(shuffled, order(50, 8));
        shuffled.sort_unstable();
        assert_eq!(shuffled, (0..50).collect::<Vec<_>>());
        assert_eq!(order(0, 1), Vec::<usize>::new());
    }

    #[test]
    fn hashes_tell_kernels_apart_and_composed_ones_have_none() {
        let all: Vec<u64> = KERNELS.iter().filter_map(|k| hash(k)).collect();
        let different: std::collections::BTreeSet<_> = all.iter().collect();
        assert_eq!(different.len(), all.len());
        assert_eq!(hash(find("nystrom_attention").expect("a kernel of the list")), None);
    }
}
