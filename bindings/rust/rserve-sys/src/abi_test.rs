//! Compares the declarations with the headers, through the C compiler.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::{engine, host};

pub(crate) struct Struct {
    pub name: &'static str,
    pub size: usize,
    /// Name, offset, type.
    pub fields: &'static [(&'static str, usize, &'static str)],
}

pub(crate) struct Function {
    pub name: &'static str,
    pub args: &'static [&'static str],
    pub ret: &'static str,
}

/// The folder that holds rserve/rserve.h.
fn include_dir() -> PathBuf {
    match env::var_os("RSERVE_INCLUDE_DIR") {
        Some(folder) => folder.into(),
        None => Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../include"),
    }
}

fn header(name: &str) -> String {
    let path = include_dir().join("rserve").join(name);
    fs::read_to_string(&path).unwrap_or_else(|err| panic!("{}: {err}", path.display()))
}

/// The C spelling of a Rust type as `stringify!` writes it.
fn c_type(rust: &str) -> String {
    // Long types come over several lines.
    let rust = rust.split_whitespace().collect::<Vec<_>>().join(" ");
    let rust = rust.trim_end_matches(',');
    if let Some(to) = rust.strip_prefix("*const ") {
        return format!("{} const *", c_type(to));
    }
    if let Some(to) = rust.strip_prefix("*mut ") {
        return format!("{} *", c_type(to));
    }
    if let Some(array) = rust.strip_prefix('[') {
        let (of, count) = array.trim_end_matches(']').split_once(';').unwrap();
        return format!("{}[{}]", c_type(of), count.trim());
    }
    if let Some(function) = rust.strip_prefix("Option<") {
        let function = function.trim().trim_end_matches('>').trim().trim_end_matches(',');
        let function = function.strip_prefix("unsafe extern \"C\" fn(").expect(function);
        let (args, ret) = match function.rsplit_once("->") {
            Some((args, ret)) => (args.trim(), c_type(ret)),
            None => (function, "void".to_string()),
        };
        let args: Vec<String> = args
            .trim_end_matches(')')
            .split(',')
            .filter(|arg| !arg.trim().is_empty())
            .map(|arg| c_type(arg.split_once(':').unwrap().1))
            .collect();
        return format!("{ret} (*)({})", args.join(", "));
    }
    match rust {
        "i32" => "int32_t",
        "u32" => "uint32_t",
        "i64" => "int64_t",
        "u64" => "uint64_t",
        "u8" => "uint8_t",
        "usize" => "size_t",
        "f32" => "float",
        "f64" => "double",
        "c_char" => "char",
        "c_int" => "int",
        "c_void" => "void",
        "rserve_event_u" => "__typeof__(((rserve_event *)0)->u)",
        "rserve_event_first_token" => "__typeof__(((rserve_event *)0)->u.first_token)",
        "rserve_event_item" => "__typeof__(((rserve_event *)0)->u.item)",
        "rserve_event_terminal" => "__typeof__(((rserve_event *)0)->u.terminal)",
        other => other,
    }
    .to_string()
}

/// A C file that compiles exactly when every declaration agrees with the headers.
fn assertions() -> String {
    let mut c = String::from("#include <rserve/host.h>\n#include <stddef.h>\n");
    for (name, value) in engine::CONSTANTS.iter().chain(host::CONSTANTS) {
        writeln!(c, "_Static_assert({name} == {value}, \"{name}\");").unwrap();
    }
    for s in engine::STRUCTS.iter().chain(host::STRUCTS) {
        let (name, c_name) = (s.name, c_type(s.name));
        writeln!(c, "typedef {c_name} {name}_c;").unwrap();
        writeln!(c, "_Static_assert(sizeof({name}_c) == {}, \"{name}\");", s.size).unwrap();
        for (field, offset, ty) in s.fields {
            let field = field.trim_start_matches("r#");
            let ty = c_type(ty);
            writeln!(
                c,
                "_Static_assert(offsetof({name}_c, {field}) == {offset}, \"{name}.{field}\");\n\
                 _Static_assert(__builtin_types_compatible_p(__typeof__((({name}_c *)0)->{field}), \
                 {ty}), \"type of {name}.{field}\");"
            )
            .unwrap();
        }
    }
    for f in engine::FUNCTIONS.iter().chain(host::FUNCTIONS) {
        let args: Vec<String> = f.args.iter().map(|arg| c_type(arg)).collect();
        let args = if args.is_empty() { "void".into() } else { args.join(", ") };
        let ret = if f.ret.is_empty() { "void".into() } else { c_type(f.ret) };
        writeln!(
            c,
            "_Static_assert(__builtin_types_compatible_p(__typeof__(&{name}), {ret} (*)({args})), \
             \"signature of {name}\");",
            name = f.name
        )
        .unwrap();
    }
    c.push_str("int main(void) { return 0; }\n");
    c
}

#[test]
fn constants_sizes_offsets_types_and_signatures_are_those_of_the_headers() {
    let folder = env::temp_dir().join(format!("rserve-sys-abi-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let source = folder.join("abi.c");
    fs::write(&source, assertions()).unwrap();
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let run = Command::new(compiler)
        .args(["-std=c11", "-fsyntax-only", "-I"])
        .arg(include_dir())
        .arg(&source)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    fs::remove_dir_all(&folder).unwrap();
    assert!(run.status.success(), "{said}");
}

/// The words of `text` that `keep` wants.
fn words(text: &str, keep: impl Fn(&str, &str) -> bool) -> BTreeSet<String> {
    let is_part = |ch: char| ch.is_ascii_alphanumeric() || ch == '_';
    let mut found = BTreeSet::new();
    let mut rest = text;
    while let Some(start) = rest.find(is_part) {
        rest = &rest[start..];
        let end = rest.find(|ch| !is_part(ch)).unwrap_or(rest.len());
        let (word, after) = rest.split_at(end);
        if keep(word, after) {
            found.insert(word.to_string());
        }
        rest = after;
    }
    found
}

/// `text` without its comments, which name functions too.
fn code_only(text: &str) -> String {
    let mut code = String::new();
    let mut rest = text;
    while let Some(start) = rest.find("/*") {
        code.push_str(&rest[..start]);
        let end = rest[start..].find("*/").expect("a comment that ends");
        rest = &rest[start + end + 2..];
    }
    code + rest
}

/// The code of a header that only includes others, with theirs.
fn header_and_parts(name: &str) -> String {
    let code = code_only(&header(name));
    let parts = code.lines().filter_map(|line| line.strip_prefix("#include \"rserve/"));
    parts.map(|part| code_only(&header(part.trim_end_matches('"')))).collect()
}

#[test]
fn nothing_of_the_headers_is_missing() {
    for (file, constants, structs, functions) in [
        ("rserve.h", engine::CONSTANTS, engine::STRUCTS, engine::FUNCTIONS),
        ("host.h", host::CONSTANTS, host::STRUCTS, host::FUNCTIONS),
    ] {
        let code = match file {
            "rserve.h" => header_and_parts(file),
            _ => code_only(&header(file)),
        };
        let of_header =
            words(&code, |word, after| word.starts_with("rserve_") && after.starts_with('('));
        let declared: BTreeSet<String> = functions.iter().map(|f| f.name.to_string()).collect();
        assert_eq!(of_header, declared, "functions of {file}");

        let declared: BTreeSet<&str> = structs.iter().map(|s| s.name).collect();
        for line in code.lines().filter(|line| line.starts_with("typedef struct")) {
            let name = line.split_whitespace().nth(2).unwrap();
            // Handles have no body: the functions' check names them.
            if line.ends_with('{') {
                assert!(declared.contains(name), "{name} of {file} is not declared");
            }
        }

        let declared: BTreeSet<&str> = constants.iter().map(|(name, _)| *name).collect();
        for line in code.lines() {
            let name = match line.strip_prefix("#define ") {
                Some(define) => define.split_whitespace().next().unwrap(),
                None => continue,
            };
            let helper = name.contains('(')
                || name.ends_with("_INIT")
                || name.ends_with("_H_")
                || name == "RSERVE_API";
            assert!(helper || declared.contains(name), "{name} of {file} is not declared");
        }
        for name in
            words(&code, |word, after| word.starts_with("RSERVE_") && after.starts_with(" = "))
        {
            assert!(declared.contains(name.as_str()), "{name} of {file} is not declared");
        }
    }
}
