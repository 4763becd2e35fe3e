//! A file that a user names, to be read once from its start to its end.
//!
//! It may be a pipe: `<(command)` and `/dev/stdin` are read to their end, however long their writer takes. Only a pipe with a name, or a
//! device, must have data soon: without a writer it would never end.

use std::fs::{File, Metadata};
use std::io::{self, ErrorKind, IsTerminal, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, fstat, fstatfs};
use rustix::io::Errno;

/// An open file. Reading fails if it waits too long for data.
#[derive(Debug)]
pub struct InputFile {
    file: File,
    /// `None`: it is a regular file, or its writer may take any time.
    max_wait: Option<Duration>,
}

impl InputFile {
    /// Opens a file of any kind, without waiting.
    pub fn open(path: &Path) -> io::Result<Self> {
        // Otherwise opening a pipe waits for a writer, and opening a serial port for its carrier.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let file = File::options().read(true).custom_flags(flags.bits() as i32).open(path)?;
        let input = InputFile { max_wait: must_be_ready(&file)?.then_some(MAX_WAIT), file };
        input.block()?;
        Ok(input)
    }

    /// Its kind, mode and length.
    pub fn metadata(&self) -> io::Result<Metadata> {
        self.file.metadata()
    }

    /// The file itself, once it has data or has ended. After that, reading it waits for its writer.
    pub fn into_file(self) -> io::Result<File> {
        self.wait()?;
        Ok(self.file)
    }

    /// Reading waits from now on.
    fn block(&self) -> io::Result<()> {
        Ok(fcntl_setfl(&self.file, fcntl_getfl(&self.file)? - OFlags::NONBLOCK)?)
    }

    /// Waits for data or the end.
    fn wait(&self) -> io::Result<()> {
        let Some(max_wait) = self.max_wait else { return Ok(()) };
        let limit = Timespec::try_from(max_wait).map_err(io::Error::other)?;
        loop {
            match poll(&mut [PollFd::new(&self.file, PollFlags::IN)], Some(&limit)) {
                Ok(0) => {
                    let text = "no data: it is a pipe whose writer sends nothing, or a device";
                    return Err(io::Error::new(ErrorKind::TimedOut, text));
                }
                Ok(_) => return Ok(()),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Read for InputFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.wait()?;
        self.file.read(buffer)
    }
}

/// Whether reading may wait for something that never happens: for the writer of a pipe with a name, or for a device other than the
/// terminal of stdin.
fn must_be_ready(file: &File) -> io::Result<bool> {
    let metadata = file.metadata()?;
    let kind = metadata.file_type();
    if kind.is_fifo() {
        return Ok(fstatfs(file)?.f_type != PIPEFS_MAGIC);
    }
    let is_device = kind.is_char_device() || kind.is_block_device();
    let stdin = io::stdin();
    let is_stdin =
        || stdin.is_terminal() && fstat(&stdin).is_ok_and(|stdin| stdin.st_rdev == metadata.rdev());
    Ok(is_device && !is_stdin())
}

/// The file system of pipes without a name.
const PIPEFS_MAGIC: rustix::fs::FsWord = 0x5049_5045;
/// Longer than a writer needs that waits for a reader, such as a program that passes secrets by a pipe with a name.
const MAX_WAIT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::fd::AsRawFd;
    use std::path::PathBuf;
    use std::thread;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    fn read(path: &Path) -> io::Result<String> {
        let mut text = String::new();
        InputFile::open(path)?.take(100).read_to_string(&mut text)?;
        Ok(text)
    }

    fn pipe_in(folder: &Path) -> PathBuf {
        let path = folder.join("pipe");
        mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        path
    }

    #[test]
    fn a_pipe_without_a_writer_is_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = pipe_in(folder.path());
        assert_eq!(read(&pipe).unwrap_err().kind(), ErrorKind::TimedOut);
        let opened = InputFile::open(&pipe).unwrap();
        assert_eq!(opened.into_file().unwrap_err().kind(), ErrorKind::TimedOut);
        // A writer that writes nothing.
        let _writer = File::options().read(true).write(true).open(&pipe).unwrap();
        assert_eq!(read(&pipe).unwrap_err().kind(), ErrorKind::TimedOut);
    }

    #[test]
    fn a_pipe_with_a_writer_is_read_to_its_end() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = pipe_in(folder.path());
        for text in ["settings", ""] {
            let to = pipe.clone();
            // Waits until the pipe is opened for reading.
            let writer = thread::spawn(move || std::fs::write(to, text).unwrap());
            assert_eq!(read(&pipe).unwrap(), text);
            writer.join().unwrap();
        }
    }

    #[test]
    fn a_pipe_without_a_name_waits_for_its_writer() {
        let (reader, mut writer) = io::pipe().unwrap();
        let path = PathBuf::from(format!("/proc/self/fd/{}", reader.as_raw_fd()));
        let input = InputFile::open(&path).unwrap();
        assert_eq!(input.max_wait, None);
        writer.write_all(b"later").unwrap();
        drop(writer);
        let mut text = String::new();
        { input }.read_to_string(&mut text).unwrap();
        assert_eq!(text, "later");
    }

    #[test]
    fn devices_and_files_are_read_without_waiting() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "text").unwrap();
        assert_eq!(read(&file).unwrap(), "text");
        assert_eq!(read(Path::new("/dev/null")).unwrap(), "");
        assert_eq!(read(Path::new("/dev/zero")).unwrap(), "\0".repeat(100));
        assert_eq!(read(folder.path()).unwrap_err().kind(), ErrorKind::IsADirectory);
        assert_eq!(read(&folder.path().join("none")).unwrap_err().kind(), ErrorKind::NotFound);
    }
}
