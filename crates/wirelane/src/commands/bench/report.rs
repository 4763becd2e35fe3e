//! What a run leaves behind: the page of `--report` and the saved document in the history; and `wirelane bench report`,
//! which writes a page of saved documents.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ::report::{Document, trend};
use access::files::InputFile;
use clap::Args;

use super::history::SavedRuns;
use crate::output;
use crate::output::{Exit, Failure, file};

/// What is saved of a run.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Saved results")]
pub(super) struct KeepArgs {
    /// Write a self-contained HTML page with plots
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,

    /// Do not save the result in the history (see `wirelane bench history`)
    #[arg(long)]
    no_save: bool,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Documents printed by --json or saved in the history
    #[arg(value_name = "FILE", required = true, num_args = 1..=MAX_FILES)]
    files: Vec<PathBuf>,

    /// The page to write
    #[arg(short, long, value_name = "FILE")]
    output: PathBuf,

    /// Compare results with those of this document
    #[arg(long, value_name = "FILE")]
    baseline: Option<PathBuf>,
}

pub(super) fn run(args: &ReportArgs) -> Result<Exit, Failure> {
    check_writable(&args.output)?;
    let documents = args.files.iter().map(|file| read(file)).collect::<Result<Vec<_>, _>>()?;
    let baseline = args.baseline.as_ref().map(|file| read(file)).transpose()?;
    write(&args.output, &documents, baseline.as_ref())?;
    Ok(Exit::Done)
}

impl KeepArgs {
    /// Checks that the page can be written, before anything is measured.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.report.as_deref().map_or(Ok(()), check_writable)
    }

    /// Writes the page of a run, and saves the run. If it cannot be saved, that is only a warning.
    pub(super) fn keep(&self, document: &Document) -> Result<(), Failure> {
        self.page(document)?;
        if self.no_save {
            return Ok(());
        }
        match SavedRuns::of_user().and_then(|runs| runs.save(document)) {
            Ok(path) => {
                let path = path.display();
                output::note(&format!("saved: {path} (`wirelane bench history` lists all)"));
            }
            Err(why) => output::warning(&format!("{why}; to save nothing, pass --no-save")),
        }
        Ok(())
    }

    /// Writes only the page, compared with the baseline if there is one.
    pub(super) fn page(&self, document: &Document) -> Result<(), Failure> {
        let Some(page) = &self.report else { return Ok(()) };
        let saved_runs = SavedRuns::of_user().ok();
        let baseline = saved_runs.and_then(|runs| baseline_of(document, &runs));
        write(page, std::slice::from_ref(document), baseline.as_ref())
    }
}

/// The baseline in the history that has results in common with this run.
fn baseline_of(document: &Document, saved_runs: &SavedRuns) -> Option<Document> {
    let history = saved_runs.load().ok()?;
    let mut baselines = history.runs.into_iter().filter(|run| run.is_baseline);
    let found = baselines.find(|run| !trend::changes(document, &run.document).is_empty());
    found.map(|run| run.document)
}

/// Writes the page, and prints its path.
pub(super) fn write(
    path: &Path,
    documents: &[Document],
    baseline: Option<&Document>,
) -> Result<(), Failure> {
    let page = report::page::render(documents, baseline);
    file::write(path, page.as_bytes(), file::READABLE)
        .map_err(|error| write_failed(path, &error))?;
    output::note(&format!("report: {} ({} KiB)", path.display(), page.len().div_ceil(1024)));
    Ok(())
}

/// A document from a file.
pub(super) fn read(path: &Path) -> Result<Document, Failure> {
    let failed = |why: String| Failure::failed(format!("read {}: {why}", path.display()));
    let text = read_limited(path).map_err(|error| failed(error.to_string()))?;
    Document::parse(&text).map_err(failed)
}

/// A file's text; an error if it is larger than any document.
pub(super) fn read_limited(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    InputFile::open(path)?.take(MAX_BYTES + 1).read_to_string(&mut text)?;
    match text.len() as u64 > MAX_BYTES {
        true => Err(io::Error::other("larger than 16 MiB: not a result of `wirelane bench`")),
        false => Ok(text),
    }
}

fn check_writable(path: &Path) -> Result<(), Failure> {
    if path.is_dir() {
        return Err(Failure::usage(format!("write {}: is a directory", path.display())));
    }
    let folder = file::folder(path);
    if !folder.is_dir() {
        let text = format!("write {}: no such directory: {}", path.display(), folder.display());
        return Err(Failure::usage(text));
    }
    Ok(())
}

fn write_failed(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(format!("write {}: {error}", path.display()))
}

const MAX_FILES: usize = 100;
const MAX_BYTES: u64 = 16 << 20;
