//! Reads the files that settings name, as kolo would read them. Nothing here judges.

use super::search::Loader;
use crate::object::{ElfObject, NoObject};
use crate::{config as command, kernels_file};
use kolo::base::{Code, Error, Result};
use kolo::config::{Net, Settings};
use kolo::topo::graph::TopoFile;
use kolo::topo::{Notes, graph_file};
use kolo::transport::net::plugin::library_of;
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

/// A setting, and how its file is read.
type ReadSetting = (&'static str, fn(&Settings) -> Result<()>);

/// Settings whose file is read. What is measured and what is secret have checks of their own.
const READ: [ReadSetting; 5] = [
    ("topo_file", topo_file),
    ("graph_file", graph_file),
    ("kernels_file", kernels),
    ("munge_socket", munge_socket),
    ("pmpi_table", pmpi_table),
];

/// Faults of the files that `settings` name, each with the setting and where it is set. A fault
/// with `SystemError` is one of reading, which may pass.
pub fn faults(settings: &Settings) -> Vec<Error> {
    let read = READ.iter().filter_map(|(key, read)| {
        let error = read(settings).err()?;
        Some((*key, error))
    });
    let all = read.chain(net_plugin(settings));
    all.map(|(key, error)| named(settings, key, error))
        .collect()
}

fn named(settings: &Settings, key: &str, error: Error) -> Error {
    let entry = settings.entry(key);
    let origin = entry.map(|entry| entry.source.origin.to_string());
    let parts = error.into_parts();
    let what = format!("{key} ({}): {}", origin.unwrap_or_default(), parts.what);
    Error::new(parts.code, what, parts.remedy)
}

fn topo_file(settings: &Settings) -> Result<()> {
    let Some(path) = settings.topo_file() else {
        return Ok(());
    };
    let file = TopoFile::read_noting(path, &Notes::lenient())?;
    file.describe().map(drop)
}

/// How many ranks the node will have is not known here: as many as the file says.
fn graph_file(settings: &Settings) -> Result<()> {
    let Some(path) = settings.graph_file() else {
        return Ok(());
    };
    let text = graph_file::file_text(path)?;
    graph_file::check_text(&text, &path.display().to_string())
}

fn kernels(settings: &Settings) -> Result<()> {
    if settings.kernels_file().is_none() {
        return Ok(());
    }
    let found = kernels_file::find(settings, None).map(drop);
    found.map_err(|fault| Error::new(fault.code(), fault.what, fault.fix))
}

fn munge_socket(settings: &Settings) -> Result<()> {
    let Some(path) = settings.munge_socket() else {
        return Ok(());
    };
    let shown = path.display();
    let fix = "let it name the socket of munged (AuthInfo in slurm.conf does), and start munged";
    match std::fs::metadata(path) {
        Ok(found) if found.file_type().is_socket() => Ok(()),
        Ok(_) => Err(Error::usage(format!("{shown} is no socket"), fix)),
        Err(error) => {
            let doing = format!("{shown} cannot be found");
            Err(Error::system(doing, &error, fix))
        }
    }
}

fn pmpi_table(settings: &Settings) -> Result<()> {
    match command::table_of(settings) {
        Some(path) => command::sections(&path).map(drop),
        None => Ok(()),
    }
}

/// The setting that is to blame, and why there is no plugin. The library is looked for as the
/// loader does, and not loaded: it may start devices, and the doctor may be root.
fn net_plugin(settings: &Settings) -> Option<(&'static str, Error)> {
    let setting = settings.net_plugin();
    let wish = settings.net();
    let may_be_used = wish == Net::Plugin || (wish == Net::Auto && setting.is_some());
    if !may_be_used {
        return None;
    }
    let key = match setting {
        Some(_) => "net_plugin",
        None => "net",
    };
    let fix = "install the plugin on every node, and name its library in KOLO_NET_PLUGIN or its \
               folder in LD_LIBRARY_PATH, or take the setting away";
    let Some(library) = library_of(setting) else {
        let what = "there is to be no plugin, and KOLO_NET=plugin wants one";
        let fix = "take one of both settings away";
        return (wish == Net::Plugin).then(|| (key, Error::usage(what, fix)));
    };
    let (code, why) = no_plugin(&library)?;
    Some((key, Error::new(code, why, fix)))
}

/// The library of the plugin that a communicator would ask, as it lies on the disk, or why it would
/// not be one; `None`: there is to be no plugin. Nothing of it is loaded.
pub fn plugin_on_disk(settings: &Settings) -> Option<std::result::Result<String, String>> {
    let library = library_of(settings.net_plugin())?;
    Some(match no_plugin(&library) {
        None => Ok(library),
        Some(_) if settings.net_plugin().is_none() && found_by_loader(&library).is_none() => {
            Err(format!("there is no {library}"))
        }
        Some((_, why)) => Err(why),
    })
}

/// Why the library is no plugin of a network.
fn no_plugin(library: &str) -> Option<(Code, String)> {
    let object = match library.contains('/') {
        true => ElfObject::read(Path::new(library)),
        false => match found_by_loader(library) {
            Some(object) => Ok(object),
            None => Err(NoObject::Unreadable("the loader does not find it".into())),
        },
    };
    match object {
        Ok(object) if object.names.is_net => None,
        Ok(_) => Some((
            Code::InvalidUsage,
            format!("{library} is a library without a table ncclNetPlugin_v8 or newer"),
        )),
        Err(NoObject::Unreadable(why)) => Some((
            Code::SystemError,
            format!("the network plugin {library} cannot be read: {why}"),
        )),
        Err(NoObject::Script(_) | NoObject::Other) => {
            Some((Code::InvalidUsage, format!("{library} is no library")))
        }
    }
}

/// A library that this program, in which kolo's code lies, would open by its bare name.
fn found_by_loader(name: &str) -> Option<ElfObject> {
    let program = ElfObject::read(&std::env::current_exe().ok()?).ok()?;
    let loader = Loader::of_this_process();
    let (all, _) = loader.load(program);
    loader.find(&all, 0, name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kolo::config::{Kind, OPTIONS, Sources};

    fn settings(pairs: &[(&str, &str)]) -> Settings {
        let set = |(key, value): &(&str, &str)| {
            let name = format!("KOLO_{}", key.to_uppercase());
            (name, (*value).to_owned())
        };
        let environment = pairs.iter().map(set).collect();
        let sources = Sources {
            environment,
            ..Sources::default()
        };
        Settings::load_from(&sources).unwrap()
    }

    fn told(pairs: &[(&str, &str)]) -> Vec<(Code, String)> {
        let all = faults(&settings(pairs)).into_iter();
        all.map(|error| (error.code, error.to_string())).collect()
    }

    /// One that is new is read here, or has a reason not to be.
    #[test]
    fn every_setting_that_names_a_file_has_its_check() {
        let elsewhere = [
            ("net_plugin", "net_plugin() reads it"),
            ("tuner_file", "software::tuner"),
            ("secret_file", "software::secret"),
            ("graph_dump_file", "it is written"),
            ("debug_file", "it is written"),
        ];
        let of_files = OPTIONS.iter().filter(|one| matches!(one.kind, Kind::Path));
        for option in of_files {
            let here = READ.iter().any(|(key, _)| *key == option.key);
            let there = elsewhere.iter().any(|(key, _)| *key == option.key);
            assert!(here != there, "{}", option.key);
        }
    }

    #[test]
    fn a_file_that_is_not_there_is_told_with_its_setting() {
        assert_eq!(told(&[]), []);
        let path = "/nonexistent/kolo/file";
        for key in READ.map(|(key, _)| key).into_iter().chain(["net_plugin"]) {
            let found = told(&[(key, path)]);
            let [(code, text)] = found.as_slice() else {
                panic!("{key}: {found:?}");
            };
            let begin = format!("{key} (variable KOLO_{}): ", key.to_uppercase());
            assert!(text.contains(&begin) && text.contains(path), "{text}");
            assert_eq!(*code, Code::SystemError, "it may pass: {text}");
        }
    }

    #[test]
    fn a_file_with_another_content_is_told() {
        let name = format!("kolo-doctor-files-{}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, "node17\n").unwrap();
        let path_text = path.to_str().unwrap();
        let of_content = ["topo_file", "graph_file", "munge_socket", "pmpi_table"];
        for key in of_content.into_iter().chain(["net_plugin"]) {
            let found = told(&[(key, path_text)]);
            let [(code, text)] = found.as_slice() else {
                panic!("{key}: {found:?}");
            };
            assert_ne!(*code, Code::SystemError, "it lasts: {text}");
            assert!(text.contains(key) && text.contains(path_text), "{text}");
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn files_of_the_right_kind_are_no_faults() {
        let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../tests");
        let graph = "version = 1\nranks = 2\nring_bandwidth = 1.0\ntree_bandwidth = 1.0\n\
                     [[ring]]\norder = [0, 1]\n[[tree]]\nchain = [0, 1]\n";
        let name = format!("kolo-doctor-graph-{}.toml", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::write(&path, graph).unwrap();
        assert_eq!(told(&[("graph_file", path.to_str().unwrap())]), []);
        std::fs::write(&path, graph.replace("order = [0, 1]", "order = [0, 0]")).unwrap();
        let found = told(&[("graph_file", path.to_str().unwrap())]);
        assert!(found[0].1.contains("ring 0"), "{found:?}");
        std::fs::remove_file(&path).unwrap();
        let machine = tests.join("topologies/dgx_a100.xml");
        assert_eq!(told(&[("topo_file", machine.to_str().unwrap())]), []);
    }

    #[test]
    fn a_network_by_a_plugin_needs_one() {
        // Without LD_LIBRARY_PATH no machine of the tests has this one.
        let word = ("net_plugin", "that-nobody-has");
        let one = |pairs: &[(&str, &str)]| {
            let found = told(pairs);
            assert_eq!(found.len(), 1, "{pairs:?}: {found:?}");
            found[0].1.clone()
        };
        let text = one(&[word]);
        assert!(text.contains("libnccl-net-that-nobody-has.so"), "{text}");
        assert!(one(&[word, ("net", "plugin")]).contains("net_plugin (variable"));
        let both = one(&[("net", "plugin"), ("net_plugin", "none")]);
        assert!(both.contains("KOLO_NET=plugin wants one"), "{both}");
        assert_eq!(told(&[("net_plugin", "none")]), []);
        assert_eq!(told(&[word, ("net", "socket")]), [], "nobody looks at it");
        if found_by_loader("libnccl-net.so").is_none() {
            let text = one(&[("net", "plugin")]);
            assert!(text.contains("net (variable KOLO_NET): "), "{text}");
            assert!(text.contains("libnccl-net.so"), "{text}");
        }
        let library = one(&[("net_plugin", "libc.so.6")]);
        assert!(library.contains("without a table"), "{library}");
    }
}
