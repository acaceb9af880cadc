//! The text of the command, from words or from a file, and the variables beside it.
//!
//! Invariant: text that gets through is UTF-8 without NUL and of a length that can be sent; it is never changed.

use super::args::ExecArgs;
use super::failure::Failure;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The longest text that is sent, in bytes.
pub(crate) const LONGEST: usize = 1 << 20;

/// Gives the command's text.
pub(crate) fn text(args: &ExecArgs) -> Result<String, Failure> {
    let bytes = match &args.command_file {
        Some(file) => from_file(file)?,
        None => from_words(&args.command, args.shell, args.argv),
    };
    if bytes.len() > LONGEST {
        return Err(too_long(Some(bytes.len())));
    }
    if let Some(at) = bytes.iter().position(|b| *b == 0) {
        return Err(Failure::usage(format!("the command holds a NUL byte (byte {at}); no shell can run that")));
    }
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Failure::usage_with(
            format!("the command is not valid UTF-8 (byte {at})"),
            "write such bytes as $'\\xNN' in the command, or send them through stdin (-i)",
        )
    })
}

/// Gives the variables of `-e`.
pub(crate) fn variables(pairs: &[OsString]) -> Result<Vec<(String, String)>, Failure> {
    pairs.iter().map(|pair| variable(pair)).collect()
}

fn variable(pair: &OsStr) -> Result<(String, String), Failure> {
    let shown = pair.to_string_lossy();
    let text = pair.to_str().ok_or_else(|| Failure::usage(format!("-e {shown}: not valid UTF-8")))?;
    // The value may be a secret: messages name the variable alone.
    let Some((name, value)) = text.split_once('=') else {
        return Err(Failure::usage(format!("-e {text}: expected NAME=VALUE")));
    };
    let legal =
        name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
    if !legal {
        return Err(Failure::usage(format!("-e {name}=...: `{name}` is not a variable's name (letters, digits and _)")));
    }
    Ok((name.to_owned(), value.to_owned()))
}

fn from_words(words: &[OsString], shell: bool, argv: bool) -> Vec<u8> {
    let list = argv || (!shell && words.len() > 1);
    let mut text = Vec::new();
    for (index, word) in words.iter().enumerate() {
        if index > 0 {
            text.push(b' ');
        }
        if list { quote(word.as_bytes(), &mut text) } else { text.extend_from_slice(word.as_bytes()) }
    }
    text
}

/// Quotes a word so that a POSIX shell takes it as it is. A word that needs no quotes gets none, so that what is shown to
/// whoever watches reads as it was typed; but `FOO=x` and `if` must stay words, not become syntax.
fn quote(word: &[u8], out: &mut Vec<u8>) {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b"-_./:,+@%".contains(b);
    if !word.is_empty() && word.iter().all(plain) && !RESERVED.contains(&word) {
        return out.extend_from_slice(word);
    }
    out.push(b'\'');
    for byte in word {
        match byte {
            b'\'' => out.extend_from_slice(b"'\\''"),
            byte => out.push(*byte),
        }
    }
    out.push(b'\'');
}

const RESERVED: [&[u8]; 19] = [
    b"if",
    b"then",
    b"else",
    b"elif",
    b"fi",
    b"do",
    b"done",
    b"case",
    b"esac",
    b"while",
    b"until",
    b"for",
    b"in",
    b"select",
    b"function",
    b"time",
    b"coproc",
    b"{",
    b"}",
];

fn from_file(file: &Path) -> Result<Vec<u8>, Failure> {
    let limit = LONGEST as u64 + 1;
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        io::stdin().lock().take(limit).read_to_end(&mut bytes)
    } else {
        File::open(file).and_then(|f| f.take(limit).read_to_end(&mut bytes))
    };
    read.map_err(|e| Failure::usage(format!("failed to read the command from {}: {e}", file.display())))?;
    if bytes.len() > LONGEST {
        // Its length is known only where the file has one.
        return Err(too_long(std::fs::metadata(file).ok().filter(|m| m.is_file()).map(|m| m.len() as usize)));
    }
    Ok(bytes)
}

fn too_long(len: Option<usize>) -> Failure {
    let len = len.map_or_else(|| format!("more than {LONGEST} bytes"), |len| format!("{len} bytes"));
    Failure::usage_with(
        format!("the command is {len} long; the limit is {LONGEST} bytes (1 MiB)"),
        "send long text through stdin: qd exec --stdin-file FILE -- bash -s",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::ffi::OsStringExt;

    fn words(list: &[&str], shell: bool, argv: bool) -> String {
        let list: Vec<OsString> = list.iter().map(OsString::from).collect();
        String::from_utf8(from_words(&list, shell, argv)).unwrap()
    }

    #[test]
    fn one_word_is_shell_text_and_several_are_a_list() {
        assert_eq!(words(&["cd /x && ls"], false, false), "cd /x && ls");
        assert_eq!(words(&["ls", "-la", "a b"], false, false), "ls -la 'a b'");
        assert_eq!(words(&["cd /x && ls"], false, true), "'cd /x && ls'");
        assert_eq!(words(&["echo", "$HOME", "|", "wc"], true, false), "echo $HOME | wc");
    }

    #[test]
    fn each_word_of_a_list_arrives_as_it_is() {
        let cases: [&[&str]; 6] = [
            &["printf", "%s\\n", "", "a'b", "$x `y` \"z\""],
            &["printf", "%s\\n", "*", "~", "a\nb", "\\"],
            &["printf", "%s\\n", "!x", "#", "a=b", "{a,b}", "if"],
            &["printf", "%s\\n", "日本", "\t", "-n", "--"],
            &["printf", "%s\\n", "<x", ">y", "a&b", ";", "(", "[a-z]"],
            &["printf", "%s\\n", "'", "''", "a'''b"],
        ];
        for list in cases {
            let text = words(list, false, false);
            let done = std::process::Command::new("sh").arg("-c").arg(&text).output().unwrap();
            let want: String = list[2..].iter().map(|w| format!("{w}\n")).collect();
            assert_eq!(String::from_utf8_lossy(&done.stdout), want, "{text}");
        }
    }

    #[test]
    fn the_first_word_of_a_list_is_never_syntax() {
        assert_eq!(words(&["if", "x"], false, false), "'if' x");
        assert_eq!(words(&["A=1", "env"], false, false), "'A=1' env");
    }

    fn with_file(bytes: &[u8]) -> Result<String, Failure> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        let parsed = crate::cli::parse(["qd", "exec", "--command-file", file.path().to_str().unwrap()].map(OsString::from)).unwrap();
        let Some(crate::cli::args::Command::Exec(args)) = parsed.command else { panic!("not exec") };
        text(&args)
    }

    #[test]
    fn a_file_is_sent_as_it_is() {
        assert_eq!(with_file(b"echo a\necho b\n").unwrap(), "echo a\necho b\n");
        assert_eq!(with_file(&vec![b'x'; LONGEST]).unwrap().len(), LONGEST);
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_the_reason() {
        let table: [(&[u8], &str); 3] = [
            (b"echo a\0b", "NUL byte (byte 6)"),
            (b"echo \xff", "not valid UTF-8 (byte 5)"),
            (&vec![b'x'; 3 << 20], "3145728 bytes long; the limit is 1048576 bytes"),
        ];
        for (bytes, want) in table {
            let failure = with_file(bytes).unwrap_err();
            assert_eq!(failure.exit_code(), 64);
            assert!(failure.to_string().contains(want), "{failure}");
        }
        let missing = from_file(Path::new("/nonexistent/x")).unwrap_err();
        assert!(missing.exit_code() == 64 && missing.to_string().contains("/nonexistent/x"), "{missing}");
    }

    #[test]
    fn variables_need_a_name_and_a_value() {
        let list = ["A=1", "_b=x=y", "C="].map(OsString::from);
        let want = [("A", "1"), ("_b", "x=y"), ("C", "")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(variables(&list).unwrap(), want);
        for bad in ["A", "=x", "1A=x", "A-B=x", "A B=x"] {
            let failure = variables(&[bad.into()]).unwrap_err();
            assert_eq!(failure.exit_code(), 64, "{bad}");
        }
        assert!(!variables(&["A-B=secret".into()]).unwrap_err().to_string().contains("secret"));
        assert!(variables(&[OsString::from_vec(b"A=\xff".to_vec())]).is_err());
    }
}
