//! What the array files accept, refuse, and leave behind.

use std::fs;
use std::io::Write as _;

use zip::{CompressionMethod, ZipWriter, write::FileOptions};

use super::element::f32_from_f16;
use super::*;

/// A folder of its own for one test, removed with what is in it.
struct Folder(PathBuf);

impl Folder {
    fn new(test: &str) -> Self {
        let path = std::env::temp_dir().join(format!("wgattn-arrays-{test}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, bytes: &[u8]) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, bytes).unwrap();
        path
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<_> = fs::read_dir(&self.0)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A `.npy` file as NumPy would write it.
fn npy(descr: &str, fortran: bool, shape: &str, data: &[u8]) -> Vec<u8> {
    let order = if fortran { "True" } else { "False" };
    npy_with_header(&format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}"), data)
}

fn npy_with_header(header: &str, data: &[u8]) -> Vec<u8> {
    let padded = (header.len() + 11).next_multiple_of(64) - 10;
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((padded as u16).to_le_bytes());
    bytes.extend(format!("{header:<width$}\n", width = padded - 1).bytes());
    bytes.extend(data);
    bytes
}

fn npz(entries: &[(&str, Vec<u8>)], method: CompressionMethod) -> Vec<u8> {
    let mut archive = ZipWriter::new(io::Cursor::new(Vec::new()));
    for (name, bytes) in entries {
        archive.start_file(*name, FileOptions::default().compression_method(method)).unwrap();
        archive.write_all(bytes).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

fn safetensors(header: &str, data: &[u8]) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.extend(data);
    bytes
}

fn array(shape: &[usize], data: ArrayData) -> Array {
    Array { shape: shape.to_vec(), data }
}

fn samples() -> BTreeMap<String, Array> {
    let long = (0..600_001).map(|index| (index as f32).sin()).collect();
    BTreeMap::from([
        (
            "f32".into(),
            array(&[2, 1, 3], ArrayData::F32(vec![0.0, -1.5, f32::MIN_POSITIVE, 1e38, -0.0, f32::INFINITY])),
        ),
        ("f64".into(), array(&[2, 2], ArrayData::F64(vec![0.1, -1e300, 5e-324, 3.0]))),
        ("i32".into(), array(&[3], ArrayData::I32(vec![i32::MIN, 0, i32::MAX]))),
        ("u32".into(), array(&[1, 2], ArrayData::U32(vec![0, u32::MAX]))),
        ("u8".into(), array(&[4], ArrayData::U8(vec![0, 1, 128, 255]))),
        ("scalar".into(), array(&[], ArrayData::F32(vec![7.0]))),
        ("empty".into(), array(&[0, 5], ArrayData::F32(vec![]))),
        ("a/b.c π".into(), array(&[600_001], ArrayData::F32(long))),
    ])
}

fn error_of(path: &Path) -> String {
    let message = read(path).expect_err("must not be accepted").to_string();
    assert!(!message.contains('\n'), "more than one line: {message}");
    assert!(message.starts_with(&path.display().to_string()), "begins with the path: {message}");
    message
}

#[test]
fn what_is_written_is_read_again_in_every_format() {
    let folder = Folder::new("round-trip");
    for name in ["x.npz", "x.safetensors"] {
        let path = folder.0.join(name);
        write(&path, &samples()).unwrap();
        assert_eq!(read(&path).unwrap(), samples(), "{name}");
    }
    let path = folder.0.join("x.NPY");
    for (name, sample) in samples() {
        write(&path, &BTreeMap::from([(name, sample.clone())])).unwrap();
        assert_eq!(read(&path).unwrap(), BTreeMap::from([(NPY_NAME.to_owned(), sample)]));
    }
    assert_eq!(folder.names(), ["x.NPY", "x.npz", "x.safetensors"], "no partial file is left");
}

#[test]
fn equal_arrays_give_equal_files() {
    let folder = Folder::new("equal");
    for suffix in ["npz", "safetensors"] {
        let [first, second] = ["a", "b"].map(|stem| folder.0.join(format!("{stem}.{suffix}")));
        write(&first, &samples()).unwrap();
        write(&second, &samples()).unwrap();
        assert_eq!(fs::read(first).unwrap(), fs::read(second).unwrap(), "{suffix}");
    }
}

#[test]
fn no_arrays_are_an_empty_archive() {
    let folder = Folder::new("none");
    for name in ["x.npz", "x.safetensors"] {
        write(folder.0.join(name), &BTreeMap::new()).unwrap();
        assert_eq!(read(folder.0.join(name)).unwrap(), BTreeMap::new(), "{name}");
    }
}

#[test]
fn stored_and_deflated_archives_are_read() {
    let folder = Folder::new("deflated");
    let zeros = npy("|u1", false, "(100000,)", &vec![0; 100_000]);
    for method in [CompressionMethod::Stored, CompressionMethod::Deflated] {
        let path = folder.file("x.npz", &npz(&[("zeros.npy", zeros.clone())], method));
        assert_eq!(read(&path).unwrap()["zeros"].data, ArrayData::U8(vec![0; 100_000]), "{method}");
    }
}

#[test]
fn fortran_order_becomes_c_order() {
    let folder = Folder::new("fortran");
    // x[i, j, k] = 100 i + 10 j + k, first axis fastest.
    let value = |i: usize, j: usize, k: usize| (100 * i + 10 * j + k) as u8;
    let mut fortran = Vec::new();
    for k in 0..4 {
        for j in 0..3 {
            fortran.extend((0..2).map(|i| value(i, j, k)));
        }
    }
    let path = folder.file("x.npy", &npy("|u1", true, "(2, 3, 4)", &fortran));
    let array = &read(path).unwrap()[NPY_NAME];
    assert_eq!(array.shape, [2, 3, 4]);
    let c_order = (0..24).map(|flat| value(flat / 12, flat / 4 % 3, flat % 4)).collect();
    assert_eq!(array.data, ArrayData::U8(c_order));
    for (shape, data) in [("()", &[9_u8][..]), ("(0, 3)", &[]), ("(3,)", &[1, 2, 3])] {
        let path = folder.file("y.npy", &npy("|u1", true, shape, data));
        assert_eq!(read(path).unwrap()[NPY_NAME].data, ArrayData::U8(data.to_vec()), "{shape}");
    }
}

#[test]
fn other_dtypes_widen_or_narrow_without_loss() {
    let folder = Folder::new("dtypes");
    let cases: &[(&str, &[u8], ArrayData)] = &[
        (">f4", &1.5_f32.to_be_bytes(), ArrayData::F32(vec![1.5])),
        (">f8", &(-0.1_f64).to_be_bytes(), ArrayData::F64(vec![-0.1])),
        (">i4", &(-7_i32).to_be_bytes(), ArrayData::I32(vec![-7])),
        (">u2", &500_u16.to_be_bytes(), ArrayData::U32(vec![500])),
        ("|b1", &[1], ArrayData::U8(vec![1])),
        ("|i1", &[0x80], ArrayData::I32(vec![-128])),
        ("<i2", &(-300_i16).to_le_bytes(), ArrayData::I32(vec![-300])),
        ("<i8", &(-1_i64).to_le_bytes(), ArrayData::I32(vec![-1])),
        (">i8", &(1_i64 << 31).to_be_bytes(), ArrayData::U32(vec![1 << 31])),
        ("<u8", &u64::from(u32::MAX).to_le_bytes(), ArrayData::U32(vec![u32::MAX])),
        ("<f2", &0x3c01_u16.to_le_bytes(), ArrayData::F32(vec![1.0 + 1.0 / 1024.0])),
        (">f2", &0xfbff_u16.to_be_bytes(), ArrayData::F32(vec![-65504.0])),
    ];
    for (descr, bytes, expected) in cases {
        let path = folder.file("x.npy", &npy(descr, false, "(1,)", bytes));
        assert_eq!(read(path).unwrap()[NPY_NAME].data, *expected, "{descr}");
    }
}

#[test]
fn safetensors_half_floats_widen() {
    let folder = Folder::new("halves");
    let header = r#"{"h":{"dtype":"F16","shape":[1],"data_offsets":[0,2]},"b":{"dtype":"BF16","shape":[1],"data_offsets":[2,4]}}"#;
    let path = folder.file("x.safetensors", &safetensors(header, &[0x00, 0xc0, 0x20, 0x40]));
    let arrays = read(path).unwrap();
    assert_eq!(arrays["h"].data, ArrayData::F32(vec![-2.0]));
    assert_eq!(arrays["b"].data, ArrayData::F32(vec![2.5]));
}

/// Ordered, spaced and signed as IEEE 754 says, over all 65536 halves.
#[test]
fn every_half_float_is_exact() {
    for half in 0..0x7c00_u16 {
        let (value, next) = (f32_from_f16(half), f32_from_f16(half + 1));
        let step = 2.0_f32.powi(i32::from(half >> 10).max(1) - 25);
        if half < 0x7bff {
            assert_eq!(next - value, step, "{half:#06x}");
        }
        assert_eq!(f32_from_f16(half | 0x8000).to_bits(), (-value).to_bits());
    }
    assert_eq!(f32_from_f16(0), 0.0);
    assert_eq!(f32_from_f16(0x7c00), f32::INFINITY);
    assert!((0x7c01..=0x7fff).all(|half| f32_from_f16(half).is_nan()));
}

#[test]
fn wide_integers_that_do_not_fit_are_named() {
    let folder = Folder::new("lossy");
    let bytes = |values: &[i64]| values.iter().flat_map(|value| value.to_le_bytes()).collect::<Vec<_>>();
    let cases = [
        ("<i8", bytes(&[1, 1 << 40]), "i64 1099511627776 at element 1"),
        ("<i8", bytes(&[3_000_000_000, -1]), "i64 3000000000 at element 0"),
        ("<i8", bytes(&[3_000_000_000, 5_000_000_000]), "i64 5000000000 at element 1"),
        ("<u8", bytes(&[0, -1]), "u64 18446744073709551615 at element 1"),
    ];
    for (descr, data, expected) in cases {
        let path = folder.file(
            "x.npz",
            &npz(&[("mask.npy", npy(descr, false, "(2,)", &data))], CompressionMethod::Stored),
        );
        let message = error_of(&path);
        assert!(message.contains("`mask`") && message.contains(expected), "{message}");
    }
}

#[test]
fn unsupported_dtypes_are_named_with_their_array() {
    let folder = Folder::new("unsupported");
    for descr in ["<c8", "<U3", "|O", "<f16", "<M8[s]", "|V4"] {
        let path = folder.file(
            "x.npz",
            &npz(&[("q.npy", npy(descr, false, "(1,)", &[0; 16]))], CompressionMethod::Stored),
        );
        let message = error_of(&path);
        assert!(message.contains("`q`") && message.contains(descr), "{message}");
    }
    let header = r#"{"w":{"dtype":"F8_E4M3","shape":[1],"data_offsets":[0,1]}}"#;
    let message = error_of(&folder.file("x.safetensors", &safetensors(header, &[0])));
    assert!(message.contains("`w`") && message.contains("F8_E4M3"), "{message}");
}

#[test]
fn missing_and_misnamed_files_are_explained() {
    let folder = Folder::new("misnamed");
    assert!(error_of(&folder.0.join("nowhere.npz")).contains("cannot read: no such file"));
    assert!(error_of(&folder.0.join("x.csv")).contains("suffix must be .npz, .npy or .safetensors"));
    assert!(error_of(&folder.0.join("no_suffix")).contains("suffix must be"));
    assert!(error_of(&folder.file("x.npz", &[])).contains("the file is empty"));
    assert!(error_of(&folder.file("x.npz", b"GIF89a")).contains("begins with the bytes [47, 49"));
    let npy = npy("|u1", false, "(1,)", &[1]);
    assert!(error_of(&folder.file("x.npz", &npy)).contains("content is that of a .npy file"));
    assert!(error_of(&folder.file("x.safetensors", &npy)).contains("content is that of a .npy file"));
    let npz = npz(&[("a.npy", npy.clone())], CompressionMethod::Stored);
    assert!(error_of(&folder.file("x.npy", &npz)).contains("content is that of a .npz file"));
    fs::create_dir(folder.0.join("folder.npz")).unwrap();
    assert!(error_of(&folder.0.join("folder.npz")).contains("directory"));
}

/// Every prefix of a good file is an error, never a shorter array and never a panic.
#[test]
fn truncated_files_are_errors_wherever_they_end() {
    let folder = Folder::new("truncated");
    let small = BTreeMap::from([
        ("a".to_owned(), array(&[2, 2], ArrayData::F32(vec![1.0; 4]))),
        ("b".to_owned(), array(&[3], ArrayData::U8(vec![2; 3]))),
    ]);
    let single = BTreeMap::from([("a".to_owned(), small["a"].clone())]);
    for (name, arrays) in [("x.npz", &small), ("x.safetensors", &small), ("x.npy", &single)] {
        let path = folder.0.join(name);
        write(&path, arrays).unwrap();
        let whole = fs::read(&path).unwrap();
        for length in 0..whole.len() {
            error_of(&folder.file(name, &whole[..length]));
        }
    }
    let cut = npy("<f4", false, "(1000,)", &[0; 3999]);
    let message = error_of(&folder.file("x.npy", &cut));
    assert!(message.contains("ends before the last of 1000 elements of f32"), "{message}");
}

/// Flipping any byte gives an error or arrays, never a panic; in an archive, never wrong data.
#[test]
fn damaged_archives_do_not_give_wrong_data() {
    let folder = Folder::new("damaged");
    let path = folder.0.join("x.npz");
    let good = BTreeMap::from([("a".to_owned(), array(&[64], ArrayData::U8((0..64).collect())))]);
    write(&path, &good).unwrap();
    let whole = fs::read(&path).unwrap();
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x55;
        let path = folder.file("y.npz", &bytes);
        if let Ok(arrays) = read(&path) {
            assert!(arrays.values().all(|array| *array == good["a"]), "byte {at}");
        }
    }
}

#[test]
fn trailing_bytes_are_errors() {
    let folder = Folder::new("trailing");
    let long = npy("|u1", false, "(2,)", &[1, 2, 3]);
    assert!(error_of(&folder.file("x.npy", &long)).contains("1 byte follows the array"));
    let path = folder.file("x.npz", &npz(&[("a.npy", long)], CompressionMethod::Deflated));
    assert!(error_of(&path).contains("`a`: damaged: 1 byte follows"));
}

#[test]
fn repeated_names_are_errors() {
    let folder = Folder::new("repeated");
    let entry = npy("|u1", false, "(1,)", &[1]);
    // The zip writer refuses two equal names, so the second is renamed in the bytes.
    let mut bytes = npz(&[("a.npy", entry.clone()), ("b.npy", entry)], CompressionMethod::Stored);
    for at in 0..bytes.len() - 5 {
        if &bytes[at..at + 5] == b"b.npy" {
            bytes[at] = b'a';
        }
    }
    assert!(error_of(&folder.file("x.npz", &bytes)).contains("array `a`: two arrays have this name"));
    let header = r#"{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}"#;
    let path = folder.file("x.safetensors", &safetensors(header, &[1]));
    assert!(error_of(&path).contains("array `a`: two arrays have this name"));
}

#[test]
fn entries_that_are_not_arrays_are_errors() {
    let folder = Folder::new("entries");
    let path = folder.file("x.npz", &npz(&[("notes.txt", b"hello".to_vec())], CompressionMethod::Stored));
    assert!(error_of(&path).contains("entry `notes.txt` is not a .npy array"));
}

#[test]
fn hostile_headers_are_errors() {
    let folder = Folder::new("hostile");
    let huge = {
        let mut bytes = b"\x93NUMPY\x02\x00".to_vec();
        bytes.extend(u32::MAX.to_le_bytes());
        bytes
    };
    assert!(error_of(&folder.file("x.npy", &huge)).contains("4294967295 bytes long, 10000 are allowed"));
    for shape in [
        "(9223372036854775807, 9223372036854775807)",
        "(0, 9223372036854775807, 3)",
        "(18446744073709551616,)",
        "(-1,)",
        "(1.5,)",
        "3",
    ] {
        for fortran in [false, true] {
            error_of(&folder.file("x.npy", &npy("<f4", fortran, shape, &[])));
        }
    }
    let message = error_of(&folder.file("x.npy", &npy("<f4", false, "(1099511627776,)", &[])));
    assert!(message.contains("[1099511627776] of f32 exceeds"), "{message}");
    // Allowed by size, but the file does not hold it: no allocation of 16 GiB on its word.
    assert!(
        error_of(&folder.file("x.npy", &npy("|u1", false, "(17179869184,)", &[1]))).contains("the file ends")
    );
    for header in [
        "(".repeat(9000),
        "".to_owned(),
        "{}".to_owned(),
        "{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'shape': (9223372036854775807, 3)}"
            .to_owned(),
        r"{'descr': '<f4', 'fortran_order': False, 'shape': (1,), 'sh\x61pe': (9223372036854775807, 3)}"
            .to_owned(),
        "{'descr': '<f4', 'fortran_order': False}".to_owned(),
        "{'descr': '<f4', 'shape': (1,)}".to_owned(),
        "{'descr': 5, 'fortran_order': False, 'shape': (1,)}".to_owned(),
    ] {
        error_of(&folder.file("x.npy", &npy_with_header(&header, &[0; 4])));
    }
    let mut bytes = safetensors("{}", &[]);
    bytes[..8].copy_from_slice(&u64::MAX.to_le_bytes());
    assert!(
        error_of(&folder.file("x.safetensors", &bytes)).contains("header claims 18446744073709551615 bytes")
    );
    for header in
        [r#"{"a":{"dtype":"F32","shape":[9],"data_offsets":[0,4]}}"#, "{oops}", &"{\"a\":".repeat(5000)]
    {
        error_of(&folder.file("x.safetensors", &safetensors(header, &[0; 4])));
    }
}

#[test]
fn a_failed_write_leaves_the_old_file_and_nothing_else() {
    let folder = Folder::new("failed");
    let path = folder.file("x.npy", b"old");
    let wrong = BTreeMap::from([("q".to_owned(), array(&[2, 3], ArrayData::F32(vec![0.0; 5])))]);
    let message = write(&path, &wrong).unwrap_err().to_string();
    assert!(message.contains("array `q`: shape [2, 3] does not have the 5 elements given"), "{message}");
    let message = write(&path, &samples()).unwrap_err().to_string();
    assert!(message.contains("holds one array, got 8"), "{message}");
    let message = write(folder.0.join("nowhere/x.npz"), &samples()).unwrap_err().to_string();
    assert!(message.contains("there is no folder"), "{message}");
    assert!(write(folder.0.join("x.csv"), &samples()).is_err());
    assert_eq!(fs::read(&path).unwrap(), b"old");
    assert_eq!(folder.names(), ["x.npy"]);
    let folder_in_the_way = folder.0.join("y.npz");
    fs::create_dir(&folder_in_the_way).unwrap();
    assert!(write(&folder_in_the_way, &samples()).is_err());
    assert_eq!(folder.names(), ["x.npy", "y.npz"]);
}

#[test]
fn an_old_file_is_replaced_by_a_whole_one() {
    let folder = Folder::new("replaced");
    let path = folder.file("x.npz", b"something old, and longer than nothing");
    write(&path, &samples()).unwrap();
    assert_eq!(read(&path).unwrap(), samples());
    assert_eq!(folder.names(), ["x.npz"]);
}
