//! Error codes of training.

pub use D::*;

stagewright_core::codes! {
    /// training: recipes, labels and runs
    pub enum D {
        /// invalid recipe
        ///
        /// The recipe is not valid TOML, or a field is unknown, missing or of the wrong type. A recipe defines the distribution
        /// of training problems:
        ///
        /// ```text
        /// seed = 1
        /// families = ["layered", "bert-training"]
        /// operators = [20, 300]
        /// devices = [2, 8]
        /// objectives = ["makespan", "throughput"]
        /// ```
        ///
        /// `families` may be omitted, which means all families that have graphs of these sizes. Correct the place that the error
        /// names.
        D001,

        /// unknown family of training graphs
        ///
        /// A name under `families` of a recipe is unknown. The error suggests the nearest one, or lists all of them.
        D002,

        /// invalid range in a recipe
        ///
        /// `operators` must be within 20 to 4000, `devices` within 2 to 16, `communication` within 0.0001 to 10000 and `room` within
        /// 1 to 10000, with the smaller number first. This range is reversed:
        ///
        /// ```text
        /// operators = [300, 20]
        /// ```
        ///
        /// Correct the numbers.
        D003,

        /// no graphs of the requested sizes
        ///
        /// The number of operators of a built-in model follows from its layers and steps, and no possible number is within
        /// `operators` of the recipe. Widen the range, or omit the family.
        D004,

        /// nothing to draw from
        ///
        /// `families` or `objectives` of a recipe is an empty list. Name at least one. Without the field, all families are drawn
        /// from.
        D005,

        /// invalid labelling effort
        ///
        /// The seconds to search each problem must be above 0 and at most 1e6. They are meant for a graph of up to 300 operators;
        /// larger graphs get proportionally more. A few tenths of a second are usual. Instead of seconds, an effort may
        /// be a number of simulations, from 1 to 2^40; a few tens of thousands are usual.
        D006,

        /// objective without labels
        ///
        /// Labels are made for the throughput of contiguous splits and for the makespan only. Change the objective.
        D007,

        /// problem without a plan to learn from
        ///
        /// No placement was found that fits the memory of the devices. Give the devices more memory, or the search more time.
        D008,

        /// a solver failed while labelling
        ///
        /// A solver could not handle a problem that was drawn, or broke an invariant of its own. This is a defect of
        /// the program: report it with the recipe and the number of the instance.
        D009,

        /// labels cannot be read or written
        ///
        /// The file of labels cannot be opened, read, locked or written. Check that its folder exists and is writable,
        /// and that the disk has room. Labels that were written are kept.
        D010,

        /// missing label file
        ///
        /// The file does not begin with the header of labels. Give a file that was made for labels, or the name of a new one.
        D011,

        /// unknown label schema
        ///
        /// The schema in the header is not `stagewright.labels/1`. Use the version that wrote the labels, or a new file.
        D012,

        /// labels of another recipe
        ///
        /// The header has another recipe or effort, or was written by a version that draws other problems (`generation`). Labels of
        /// different problems cannot share a file. Use the recipe and effort that the labels were made with, or a new file.
        D013,

        /// invalid line in a label file
        ///
        /// A line of a file of labels is damaged, or an instance occurs twice. (A truncated last line is not this error: it is
        /// dropped automatically.) Remove the line; its instance is then labelled again.
        D014,

        /// labels in use by another program
        ///
        /// Another program has the file of labels open for writing. Wait for it to end, or use another file.
        D015,

        /// label of another problem
        ///
        /// The placement of a label names operators or devices that the problem does not have. Use the recipe in the header of the
        /// file.
        D016,

        /// no threads for labelling
        ///
        /// The system cannot start the requested number of threads. Use fewer.
        D017,

        /// invalid training configuration
        ///
        /// The file is not valid TOML, a field is unknown, missing or of the wrong type, a count or size is out of its range,
        /// or its numbers contradict each other. The files in `data/policy` are examples.
        D018,

        /// a solver failed in training
        ///
        /// A solver broke an invariant of its own. This is a defect of the program: report it with the configuration.
        D019,

        /// training file cannot be read or written
        ///
        /// A checkpoint that the configuration names does not exist, or the folder of the run is not writable. Files that were
        /// written completely are kept.
        D020,

        /// folder of another run
        ///
        /// The folder has the state of a run with another configuration, or of a version of Stagewright that trains differently.
        /// Give another folder, or use the configuration and the version that the run was started with.
        D021,

        /// no device for the network
        ///
        /// A build with the feature `cuda` found no usable GPU, or threads cannot be started. `docs/cuda.md` lists the requirements;
        /// a build without the feature uses the CPU.
        D022,

        /// folder in use by another run
        ///
        /// Another process holds the lock of the folder (its file `lock`). Two runs at once would overwrite each
        /// other's state. Wait until the other process ends, or give another folder with `--out`. The lock is released
        /// when its process ends, even if the process is killed; the file may remain.
        D023,

        /// instance not labelled by another process
        ///
        /// With `--ray`, labels are made on the nodes of a cluster, and a node could not make the label of this
        /// instance. The error has the cause: a node has another build of Stagewright, its process died several times,
        /// or the instance cannot be labelled. Labels before it are kept.
        D024,

        /// checkpoint that the run would replace
        ///
        /// `from` of the configuration is the best checkpoint or the state in the folder of the run, which the run replaces. Give another
        /// folder with `--out`, or start from a copy of the file.
        D025,
    }
}
