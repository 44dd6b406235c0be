//! Error codes of the program alone.

pub(crate) use B::*;
pub(crate) use O::*;

stagewright::core::codes! {
    /// tasks on a Ray cluster
    pub enum A {
        /// Python not found
        ///
        /// Tasks on a Ray cluster go through a driver in Python, and either `python3` could not be started, or this
        /// program could not determine its own path or folder. Install Python 3.10 or later. The environment variable
        /// `STAGEWRIGHT_PYTHON` names another interpreter, such as the interpreter of a virtual environment.
        A001,

        /// Python package missing
        ///
        /// The Python that runs the driver lacks the package `stagewright`, or Ray. Install both:
        ///
        /// ```text
        /// make wheel
        /// pip install target/wheels/stagewright-*.whl ray
        /// ```
        ///
        /// If they are in a virtual environment, activate it, or set `STAGEWRIGHT_PYTHON` to its interpreter.
        A002,

        /// Ray cluster not reached
        ///
        /// No Ray cluster answers at the address. `auto` finds the cluster of the machine on which the command runs; from another
        /// machine, give the host and port that `ray start --head` printed. Ray and Python must have the same version on all nodes.
        A003,

        /// failed driver of a cluster
        ///
        /// The driver in Python ended early or wrote something unexpected; the error shows the last line that it wrote.
        /// This happens if the head node of the cluster dies. Start again: with `--journal`, only the unfinished cases
        /// run.
        A004,

        /// node with another build
        ///
        /// Labels may differ between builds of the program, so a node refuses to make them for another build. Give all
        /// nodes the same program, in the same folder or on their search path.
        A005,
    }
}

stagewright::core::codes! {
    /// suites of `bench`
    pub enum B {
        /// missing file in a suite
        ///
        /// A pattern under `inputs` or `clusters` of a suite matches no file, or the cluster of a workload, the recipe of problems or
        /// the checkpoint of a variant does not exist. Paths are relative to the suite file, or begin with `$STAGEWRIGHT_SHARED`; a
        /// cluster may also be a built-in name. Correct the path, or create the file.
        B001,

        /// invalid suite file
        ///
        /// The file is not valid TOML, a field is unknown, missing or of the wrong type, `repeat` is 0 or above a million,
        /// `threads` is 0 or above 512, inputs, clusters, objectives, solvers, plans and seeds together make more than 100,000 cases, a
        /// plan has the name of a solver, `exec:NAME` has no command under `[[exec]]`, or `look_at` or `convergence` names something that
        /// is not one of the solvers. Two workloads have the same name, their options are not those of `stagewright workload` or
        /// describe no graph, or a variant with `sibling` has an input without one. The suites in `data/suites` show
        /// most fields, and `docs/solvers.md` describes plans and commands.
        B002,

        /// invalid baseline file
        ///
        /// The file under `baseline` is not valid CSV, or lacks a column that `key` or `columns` names. Lines that start with `#`
        /// are skipped, and the first other line names the columns. Correct the names, or the file.
        B003,

        /// a run of a suite failed
        ///
        /// `bench` runs every case as a separate process and could not start one: the program was moved or replaced in the
        /// meantime, or the system has no process or memory left. Run fewer cases at a time (`--jobs`), or start again;
        /// `--journal` keeps finished cases. If the error says that a run has not reported its convergence, the folder for
        /// temporary files is full.
        B004,

        /// unusable journal
        ///
        /// The file that `--journal` names cannot be opened, read or written, or one of its lines is not a finished case. Give a
        /// journal that `bench` wrote, or the name of a new file. If the disk is full, make room: finished cases are not lost.
        B005,

        /// journal in use by another bench
        ///
        /// Another process has opened the file that `--journal` names. Two benches at once would run the same cases and
        /// mix their lines. Wait until the other process ends, or give each bench a journal of its own. The lock is
        /// released when its process ends, even if the process is killed.
        B006,

        /// node with other files
        ///
        /// A node of the cluster was asked to run a case, but the key that it computes for the case differs: it has
        /// another build of the program, another suite, or an input with other content. Give all nodes the same program
        /// and files in the same folders, for example on a shared file system.
        B007,

        /// journal of another suite or build
        ///
        /// `bench merge` joins journals of shards of one suite, run by one build of the program, and no case of this
        /// journal belongs to that suite and build. Give the suite that the shards ran, by the same path and with the
        /// same input files, and merge with the program that ran them.
        B008,

        /// suite that runs commands
        ///
        /// The suite names solvers in other programs under `[[exec]]`. The commands run with your permissions, so a suite from
        /// someone else could do anything. Read the commands, and if you trust them run the suite with `--allow-exec`.
        B009,
    }
}

stagewright::core::codes! {
    /// the library of instances
    pub enum O {
        /// unknown instance
        ///
        /// No instance of the library has this name. `stagewright instances list` shows all names; `--library FOLDER` reads another
        /// library.
        O001,

        /// invalid library of instances
        ///
        /// The index of the library is not valid, names a file or an export that does not exist, or has options that the
        /// command of its recipe does not take. `data/instances/README.md` describes the index, and `data/instances/index.toml`
        /// shows every field.
        O002,

        /// model or devices that differ from the index
        ///
        /// The SHA-256 of the model, its number of operators or the number of devices differs from the index. The model of a recipe
        /// changes with the workloads, importers and cost rules of the program, and a published file may be another version. Get the
        /// model that the index describes, or add the instance anew under another name.
        O003,

        /// plan that differs from the index
        ///
        /// The SHA-256 of the plan, unpacked, differs from the index: the file was changed or damaged. Get the plan that the index
        /// describes, or add a plan with `instances add`.
        O004,

        /// refused plan of an instance
        ///
        /// The checker finds a violation, the plan is for another objective, its recomputed value differs from the index, or one of the
        /// documents cannot be read. The error says which. `stagewright check instance:NAME PLAN` shows every fault of a plan.
        O005,

        /// unproved bound of an instance
        ///
        /// The proof of the instance was replayed and gives a smaller bound than the index claims, or does not prove
        /// infeasibility; or the status does not follow from value and bound. A bound is proved by the plan's
        /// certificate, by bounds that need no search, or by a run of a solver, which may also have reached its limit
        /// of two minutes. Correct the claim, or give a proof of it.
        O006,

        /// missing published file
        ///
        /// The model of the instance is a file published by others, which the library only names. Get it from the place that
        /// the error names, and give the folder to `instances verify --published`.
        O007,

        /// document that the instance does not have
        ///
        /// An instance that is infeasible has no plan, and a strategy problem has no cluster. `stagewright instances show NAME`
        /// lists the parts of an instance. An instance that is feasible cannot be added without a plan.
        O008,

        /// plan that is not the best of its instance
        ///
        /// `instances add` takes a plan whose value is at most that of the best-known plan. If the values are equal, the
        /// best-known plan and its finder stay in the library, unless the new plan proves a higher bound. Find a better plan.
        O009,
    }
}
