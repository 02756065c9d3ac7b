//! Which rows are run, at which sizes, and in which order.

use super::variants_of;
use crate::error::{Error, Result};
use crate::kernel::case::Concrete;
use crate::kernel::{Case, Fill, KernelSpec};
use crate::kernels::{KERNELS, find};
use crate::tensor::Dims;
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
        let dims = self.dims();
        let size = |name: &&str| name.parse::<f64>().unwrap_or_else(|_| f64::from(dims.size(name)));
        let ports = self.spec.ports.iter().filter(|p| !self.case.absent.contains(&p.name));
        ports.map(|p| p.dtype.bytes() as f64 * p.dims.iter().map(size).product::<f64>()).sum()
    }

    /// Its tensors.
    ///
    /// Errors: [`Error::Value`] for sizes that the kernel refuses, or at which its case has no data.
    pub fn concrete(&self) -> Result<Concrete> {
        let Some(dims) = &self.sizes else { return Concrete::of(self.spec, self.case) };
        let refused = |expected: String| {
            let got = dims.iter().map(|(n, s)| format!("{n}={s}")).collect::<Vec<_>>().join(" ");
            Error::value(format!("sizes of {}", self.label()), expected, got, "leave this size out")
        };
        (self.spec.check)(dims, &(self.case.params)()).map_err(&refused)?;
        // Data that were made for a case may be a table or a graph of its size.
        let made = self.case.fill.iter().find(|(_, fill)| matches!(fill, Fill::Made(_)));
        if let Some((port, _)) = made {
            return Err(refused(format!("those of the case, for which the data of `{port}` are made")));
        }
        Concrete::with_dims(self.spec, self.case, dims.clone())
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

/// The sizes of a case with one dimension replaced, and what was changed; `None` where it has no such dimension.
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
    // Rows of landmarks that are padded to whole vectors.
    if name == "m" && dims.find("mw") == Some(old.next_multiple_of(4)) {
        new.set("mw", size.next_multiple_of(4));
    }
    Some(new)
}

/// One case at all sizes of a sweep that it has the dimensions for, each combined with each.
fn swept(job: &Job, sweep: &Sweep) -> Vec<Job> {
    let own = Dims::of(job.case.dims);
    let mut sizes = vec![own.clone()];
    let axes = [("n", &sweep.tokens), ("m", &sweep.landmarks), ("h", &sweep.heads), ("d", &sweep.head_dim)];
    for (name, list) in axes.into_iter().filter(|(_, list)| !list.is_empty()) {
        let at = |dims: &Dims| list.iter().filter_map(|s| replaced(dims, name, *s)).collect::<Vec<_>>();
        sizes = sizes.iter().flat_map(at).collect();
    }
    let job_at = |dims: Dims| {
        let differs = |(name, size): (&'static str, u32)| {
            (own.find(name) != Some(size)).then(|| format!("{name}={size}"))
        };
        let changes: Vec<String> = dims.iter().filter_map(differs).collect();
        if changes.is_empty() {
            return job.clone();
        }
        Job { name: format!("{} [{}]", job.case.name, changes.join(" ")), sizes: Some(dims), ..job.clone() }
    };
    sizes.into_iter().map(job_at).collect()
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

/// The rows that are wanted, in the order of the list of kernels.
///
/// Errors: [`Error::Value`] where nothing fits.
pub fn plan(wanted: &Wanted) -> Result<Vec<Job>> {
    let asked = !wanted.filters.is_empty() || wanted.case.is_some() || wanted.variant.is_some();
    let jobs: Vec<Job> = if wanted.quick && !asked && wanted.sweep.is_empty() {
        super::score::rows().into_iter().map(|(spec, case)| Job::of(spec, case)).collect()
    } else {
        let cases = super::select(&wanted.filters, wanted.case.as_deref());
        cases.into_iter().map(|(spec, case)| Job::of(spec, case)).collect()
    };
    if jobs.is_empty() {
        let all: Vec<String> =
            super::select(&[], None).iter().map(|(k, c)| format!("{}/{}", k.name, c.name)).collect();
        let any = |words: &[String]| if words.is_empty() { "any".to_string() } else { words.join(" ") };
        return Err(Error::value(
            "benchmark",
            format!("a kernel and case among [{}]", all.join(", ")),
            format!("kernel {}, case {}", any(&wanted.filters), any(wanted.case.as_slice())),
            "see `wgattn bench --list`",
        ));
    }
    let held: Vec<Job> = jobs.iter().flat_map(|job| held(job, wanted.variant.as_deref())).collect();
    if held.is_empty() {
        let variant = wanted.variant.clone().unwrap_or_default();
        let names: Vec<&str> = jobs.iter().flat_map(|j| variants_of(j.spec)).collect();
        return Err(Error::value(
            "variant",
            format!("one of the kernels that fit: [{}]", names.join(", ")),
            variant,
            "see `wgattn shaders KERNEL`",
        ));
    }
    let all: Vec<Job> = held.iter().flat_map(|job| swept(job, &wanted.sweep)).collect();
    if all.is_empty() {
        return Err(Error::value(
            "sweep",
            "kernels whose cases have the dimensions n (--n), m (--landmarks), h (--heads), d (--d)",
            "none that fits has all of them",
            "sweep fewer dimensions, or choose other kernels",
        ));
    }
    let mut seen: Vec<String> = Vec::new();
    Ok(all
        .into_iter()
        .filter(|job| {
            !seen.contains(&job.label()) && {
                seen.push(job.label());
                true
            }
        })
        .collect())
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
    let bad = || {
        format!(
            "{word:?}: expected a whole number from 1, with k for 1024 or M for 1024² after it if need be, or A..B"
        )
    };
    let (digits, unit) = match word.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1024),
        None => word.strip_suffix('M').map_or((word, 1), |digits| (digits, 1024 * 1024)),
    };
    let number: u32 = digits.parse().map_err(|_| bad())?;
    number.checked_mul(unit).filter(|size| *size > 0).ok_or_else(bad)
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
        plan(wanted).expect("something fits").iter().map(Job::label).collect()
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
        let sweep = Sweep { tokens: vec![1000], ..Sweep::default() };
        let wanted = Wanted { case: Some("line_4096".into()), sweep, ..of(&["toeplitz_product"]) };
        let jobs = plan(&wanted).expect("it has tokens");
        let error = jobs[0].concrete().expect_err("the table has 4096 places").to_string();
        assert!(
            error.contains("toeplitz_product/line_4096 [n=1000]") && error.contains("leave this size out"),
            "{error}"
        );
    }

    #[test]
    fn nothing_that_fits_is_told_with_what_there_is() {
        for (wanted, told) in [
            (of(&["nothing_like_this"]), "matmul/square_256"),
            (Wanted { variant: Some("no_such".into()), ..of(&["matmul"]) }, "tile64"),
            (
                Wanted { sweep: Sweep { head_dim: vec![8], ..Sweep::default() }, ..of(&["transpose"]) },
                "dimensions",
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
