#pragma once

namespace tessera {

// What `--help` of a command says after its options.

inline constexpr const char* kTrainFooter =
    "With --restarts, the same failure twice in the same step ends the run; so do a signal, an\n"
    "error of the configuration and the last of the N. It is for ranks that tessera starts.\n"
    "\n"
    "SIGINT, SIGTERM, SIGHUP, SIGUSR1 and SIGUSR2 ask it to stop and to save, which it does "
    "after\n"
    "the second step that begins after the signal; a second SIGINT ends it at once. The same\n"
    "command goes on from there (checkpoint.resume = \"auto\", the default).\n"
    "\n"
    "Exit codes: 0 all steps done; 1 failed; 2 usage or configuration; 3 stopped by a signal,\n"
    "steps are left (saved, unless checkpoint.save = false); 128 + n ended by signal n with\n"
    "nothing saved; 141 nobody reads the output any more (saved as after 3).";

inline constexpr const char* kStoredFooter =
    "The configuration is the checkpoint's. Folders of plugins are not taken from it, since it "
    "may\n"
    "be somebody else's: give them with --path or TESSERA_PLUGIN_PATH.";

inline constexpr const char* kPromptsFooter =
    "FILE has one prompt a line, UTF-8, none of them empty. Where its name ends in .jsonl, each\n"
    "line is an object {\"prompt\": \"...\"}, whose text may have several lines. Texts print in\n"
    "the order of the file, each when it and those before it are complete. What --seed draws for\n"
    "a text depends on its place in the file, and not on --batch. The text and tokens of --json\n"
    "are what was added to the prompt.\n"
    "\n";

inline constexpr const char* kEvalFooter =
    "Keys of the evaluation are given as --KEY VALUE: --window 1024 (tessera plugins show\n"
    "evaluation/TASK lists them). --ranks N shares the texts or samples out to N ranks; --set\n"
    "parallel.tensor, pipeline or context cut the model in place of that. Results do not depend\n"
    "on either.\n"
    "Keys that decide what samples are, as question and stride of squad, are those of the run's\n"
    "[data] where it has them, unless the command gives them.\n"
    "\n"
    "--seeds compares by the first result that is no count, as an accuracy. RACE's result in\n"
    "Shoeybi et al. 2019: --data dev --seeds RUN RUN RUN RUN --test test.\n"
    "\n"
    "--scores FILE has an object a line: {\"sample\", \"scores\"}. \"sample\" says where it is in "
    "the\n"
    "data. \"scores\" are the logits that results are made of, one a class or a choice; of squad\n"
    "one a place of the sample for the answer's first token, then one a place for its last;\n"
    "30,000 is subtracted where no answer may be. With --ensemble they are the models' means: of\n"
    "logits for squad, else of probabilities.\n"
    "\n"
    "TASK embed prints an object a text: {\"text\", \"tokens\", \"embedding\"}. --data has a text "
    "a\n"
    "line, or, where its name ends in .jsonl, an object {\"text\": \"...\"}; --pooling is mean "
    "(the\n"
    "default, over all tokens), cls (the first) or none (a vector for each token).\n"
    "\n";

inline constexpr const char* kDiffFooter =
    "Layouts and files do not matter, values do. Without --tolerance bits count. The\n"
    "magnitude of a tensor is its largest finite one, in A or B. Other state that a run resumes\n"
    "with (step, loss scale, ...) counts too, the mean of its losses with the same tolerance.\n"
    "\n"
    "Exit codes: 0 they hold the same, or all is within the tolerance; 1 they differ, or one is\n"
    "damaged; 2 usage.";

inline constexpr const char* kReshardFooter =
    "Example: tessera checkpoint reshard runs/a runs/b/checkpoints --set parallel.tensor=4\n"
    "\n"
    "No layout needs it: every run reads any checkpoint, and each rank only those blocks of it\n"
    "that hold values of its own. It saves time where many ranks start often from a checkpoint\n"
    "of a layout that cuts matrices along other dimensions, or from storage that reads small\n"
    "parts slowly: then each rank reads whole files. Values keep their bits.\n"
    "\n";

inline constexpr const char* kConvertFooter =
    "Reads config.json with model.safetensors, or with several files and their index. Values "
    "keep\n"
    "their bits; fp16 and bf16 become fp32, and go back as what they were. The files of its\n"
    "tokenizer are copied.\n"
    "\n"
    "From a model it writes checkpoints/step-0 and model.toml, a configuration to include in\n"
    "one that trains on from there with checkpoint.init_from.";

inline constexpr const char* kDataBuildFooter =
    "Example of FILE.toml; paths are relative to it:\n"
    "\n"
    "    schema = 1\n"
    "    input = [\"python.jsonl\"]       # also globs, .txt, and each with .gz or .zst\n"
    "    output = \"python\"              # python.bin, .idx, .report.json, .removed.jsonl\n"
    "    tokenizer = {type = \"byte\"}    # as [tokenizer] of a run\n"
    "    stages = [{type = \"clean\"}, {type = \"near_duplicates\"}]\n"
    "\n"
    "A build that was killed goes on from OUTPUT.build when it is started again.\n"
    "`tessera plugins show document_stage/NAME` prints the keys of a stage.";

inline constexpr const char* kTokenizerTrainFooter =
    "Example of FILE.toml; paths are relative to it:\n"
    "\n"
    "    schema = 1\n"
    "    input = [\"python.jsonl\"]       # as that of `tessera data build`\n"
    "    output = \"python.model\"\n"
    "    trainer = {type = \"bpe\", vocabulary = 8192}\n"
    "\n"
    "It prints how a run names the tokenizer that reads the file.\n"
    "`tessera plugins show tokenizer_trainer/NAME` prints the keys of a trainer.";

}  // namespace tessera
