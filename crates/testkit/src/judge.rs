//! A judge: a program that answers questions line by line, so that ours can be held against code in another language.

use std::fmt::Display;
use std::io::{self, BufRead, BufReader, ErrorKind, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A judge that runs.
pub struct Judge {
    process: Child,
    questions: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Judge {
    /// Starts the program.
    pub fn start(program: &Path) -> io::Result<Self> {
        let mut process = Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        match (process.stdin.take(), process.stdout.take()) {
            (Some(questions), Some(answers)) => Ok(Self { process, questions, answers: BufReader::new(answers) }),
            _ => Err(io::Error::other("the judge has no input or no output")),
        }
    }

    /// Asks a question, which is one line, and gives the line that is the answer. A judge that has ended gives none.
    pub fn ask(&mut self, question: &impl Display) -> io::Result<Vec<u8>> {
        writeln!(self.questions, "{question}")?;
        let mut answer = Vec::new();
        self.answers.read_until(b'\n', &mut answer)?;
        if !answer.ends_with(b"\n") {
            return Err(io::Error::new(ErrorKind::UnexpectedEof, format!("no answer to {question}")));
        }
        Ok(answer)
    }
}

impl Drop for Judge {
    fn drop(&mut self) {
        // It ends with its input, but a failed test should not wait for that.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_question_gets_its_answer() {
        let mut judge = Judge::start(Path::new("cat")).unwrap();
        assert_eq!(judge.ask(&"one").unwrap(), b"one\n");
        assert_eq!(judge.ask(&2).unwrap(), b"2\n");
    }

    #[test]
    fn a_judge_that_ends_has_no_answer() {
        assert!(Judge::start(Path::new("true")).unwrap().ask(&"one").is_err());
        assert!(Judge::start(Path::new("/no/such/judge")).is_err());
    }
}
