// A run that is started again, and checkpoints that are used under other keys: what a training was
// made with stays what its files say.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <utility>

#include "common/gpt2_files.hpp"
#include "train_support.hpp"

namespace tessera {
namespace second_start_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using testing::Gpt2Files;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::run_tessera;
using testing::TinyRun;

// Contents and times of all files of a folder but its locks.
using Snapshot = std::map<std::string, std::pair<std::string, fs::file_time_type>>;

class SecondStart : public ::testing::Test {
 protected:
  Snapshot snapshot(const std::string& name) const {
    Snapshot all;
    for (const auto& entry : fs::recursive_directory_iterator(run_.at(name))) {
      const std::string file = entry.path().string();
      if (!entry.is_regular_file() || file.ends_with("lock")) continue;
      all[file] = {run_.folder.read(fs::relative(entry.path(), run_.folder.path()).string()),
                   fs::last_write_time(entry.path())};
    }
    return all;
  }
  ProcessResult check(std::vector<std::string> sets) const {
    std::vector<std::string> arguments = run_.command(sets);
    arguments.erase(arguments.begin());
    arguments[0] = "check";
    arguments.insert(arguments.begin(), "config");
    return run_tessera(arguments, run_.options());
  }
  std::vector<nlohmann::json> history(const std::string& out) const {
    std::vector<nlohmann::json> lines;
    std::istringstream text(run_.folder.read(out + "/history.jsonl"));
    for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
    return lines;
  }
  // The learning rate of a step.
  double rate(const std::string& out, int step) const {
    std::istringstream text(run_.folder.read(out + "/metrics.jsonl"));
    for (std::string line; std::getline(text, line);) {
      const auto json = nlohmann::json::parse(line);
      if (json.value("step", 0) == step && json.contains("lr")) return json["lr"].get<double>();
    }
    return -1;
  }
  // Ends a run before its last step; returns the step that it saved.
  int stopped_run(const std::string& out) const {
    Process process(run_.command(TinyRun::steps(100000, out)), run_.options());
    EXPECT_TRUE(process.shows("3/1")) << process.err();
    process.send(SIGTERM);
    EXPECT_EQ(process.wait().exit_code, 3);
    const std::string step = run_.checkpoints(out).back();
    return std::stoi(step.substr(step.find('-') + 1));
  }
  TinyRun run_;
};

TEST_F(SecondStart, AFinishedRunChangesNoFile) {
  for (const std::string ranks : {"1", "2"}) {
    const std::string out = "run" + ranks;
    const auto sets = TinyRun::steps(3, out, {"parallel.data=" + ranks});
    ASSERT_EQ(run_.train(sets).exit_code, 0);
    const Snapshot before = snapshot(out);
    EXPECT_THAT(before, Contains(::testing::Key(run_.at(out + "/report.html"))));
    std::vector<std::string> others = sets;
    others.insert(others.end(), {"run.log_every_steps=2", "observers.console.every_steps=3"});
    for (const auto& again : {sets, others}) {
      EXPECT_THAT(run_.train(again),
                  Exits(0,
                        "this run is already finished: " + run_.at(out) +
                            "/checkpoints/step-3 is at step 3 = run.steps"));
      EXPECT_TRUE(snapshot(out) == before);
    }
  }
}

TEST_F(SecondStart, AFinishedRunRefusesKeysThatShapeItsCurve) {
  ASSERT_EQ(run_.train(TinyRun::steps(3, "run")).exit_code, 0);
  const Snapshot before = snapshot("run");
  const std::string step = run_.at("run/checkpoints/step-3");
  for (const auto& [key, change] : std::vector<std::pair<std::string, std::string>>{
           {"lr.peak=2e-3", "lr.peak: 0.001, now 0.002"},
           {"batch.micro=4", "batch.micro: 2, now 4"},
           {"optimizer.clip=0.5", "optimizer.clip: 1.0, now 0.5"},
           {"precision.compute=bf16", "precision.compute: \"fp32\", now \"bf16\""},
           {"model.dropout=0.2", "model.dropout: 0.1, now 0.2"},
           {"model.heads=4", "model.heads: 6, now 4"},
           {"data.validation=0.3", "data.validation: "},
           {"run.seed=12", "run.seed: 11, now 12"}}) {
    for (const int steps : {3, 5}) {  // a sweep over both is no run that goes on
      EXPECT_THAT(run_.train(TinyRun::steps(steps, "run", {key})),
                  Exits(2,
                        run_.at("run") + ": this run is finished, at step 3",
                        "\n  " + change,
                        "set run.out for a run of its own",
                        "checkpoint.init_from = \"" + step + "\""))
          << key;
      EXPECT_TRUE(snapshot("run") == before) << key;
    }
  }
  EXPECT_THAT(run_.train(TinyRun::steps(3, "run", {"lr.peak=2e-3", "parallel.data=2"})),
              Exits(2, "\n  lr.peak: 0.001, now 0.002\n"));
  EXPECT_TRUE(snapshot("run") == before);
}

// Another shape is a key that differs, and not a list of tensors.
TEST_F(SecondStart, AnotherShapeIsToldByItsKeysAndTheWayOut) {
  const std::vector<std::string> stages = {"parallel.pipeline=2", "schedule.type=\"1f1b\""};
  ASSERT_EQ(run_.train(TinyRun::steps(3, "run")).exit_code, 0);
  const int step = stopped_run("open");
  const std::string folder = run_.at("open/checkpoints/step-" + std::to_string(step));
  for (const std::string key : {"model.hidden=48", "model.layers=4"}) {
    for (const bool staged : {false, true}) {
      std::vector<std::string> sets = {key};
      if (staged) sets.insert(sets.end(), stages.begin(), stages.end());
      const std::string change =
          key == "model.hidden=48" ? "model.hidden: 24, now 48" : "model.layers: 2, now 4";
      for (const auto& result :
           {run_.train(TinyRun::steps(3, "run", sets)), check(TinyRun::steps(3, "run", sets))}) {
        EXPECT_EQ(result.exit_code, 2) << key;
        EXPECT_THAT(
            result.err,
            AllOf(::testing::StartsWith(run_.at("run") + ": this run is finished, at step 3"),
                  HasSubstr("\n  " + change + "\n  set run.out for a run of its own"),
                  Not(HasSubstr("embedding.weight"))));
      }
      for (const auto& result : {run_.train(TinyRun::steps(step + 1, "open", sets)),
                                 check(TinyRun::steps(step + 1, "open", sets))}) {
        EXPECT_EQ(result.exit_code, 2) << key;
        EXPECT_THAT(result.err,
                    ::testing::StartsWith(folder + ": this configuration has other tensors, so "
                                                   "training cannot go on from there; changed "
                                                   "since then:\n"));
        const std::size_t keys = result.err.find("\n  " + change + "\n");
        const std::size_t way_out = result.err.find(
            "\n  take back what changed, or set run.out for a run of its own\ncheckpoint " +
            folder + " does not fit this configuration:\n");
        EXPECT_LT(keys, way_out);
        EXPECT_NE(way_out, std::string::npos) << result.err;
        EXPECT_THAT(result.err, Not(HasSubstr("what each rank did last")));
      }
    }
  }
}

// `config check` compares the run's folder as `train` does: with the same words.
TEST_F(SecondStart, CheckRefusesWhatTrainRefuses) {
  ASSERT_EQ(run_.train(TinyRun::steps(3, "run")).exit_code, 0);
  const int step = stopped_run("open");
  const Snapshot before = snapshot("run");
  const std::vector<std::pair<std::vector<std::string>, std::string>> refused = {
      {TinyRun::steps(3, "run", {"lr.peak=2e-3"}), "lr.peak: 0.001, now 0.002"},
      {TinyRun::steps(5, "run", {"lr.peak=2e-3"}), "lr.peak: 0.001, now 0.002"},
      {TinyRun::steps(2, "run"), "is beyond the end of this run: run.steps = 2; set at least 3"},
      {TinyRun::steps(step + 1, "open", {"model.heads=4"}), "model.heads: 6, now 4"},
      {TinyRun::steps(step + 1, "open", {"run.seed=12"}), "was made with run.seed = 11, not 12"},
      {TinyRun::steps(step + 1, "open", {"data.validation=0.3"}), "was made with other data"},
      {TinyRun::steps(step + 1, "open", {"batch.global=4"}), "which is not batch.global = 4"},
      {TinyRun::steps(step + 1, "open", {"batch.sequence_length=8"}),
       "was made with batch.sequence_length = 16, not 8"},
      {TinyRun::steps(step + 1, "open", {"optimizer.rule.type=lion"}),
       "Its parameters fit, the state of its optimizer does not"},
      {TinyRun::steps(5, "new", {"model.layers=3", "checkpoint.resume=run/checkpoints/step-3"}),
       "does not fit this configuration:"}};
  for (const auto& [sets, text] : refused) {
    const ProcessResult checked = check(sets), trained = run_.train(sets);
    EXPECT_EQ(checked.exit_code, 2) << text;
    EXPECT_THAT(checked.err, HasSubstr(text));
    EXPECT_EQ(checked.err, trained.err);
  }
  for (const auto& fine : {TinyRun::steps(3, "run"),
                           TinyRun::steps(3, "run", {"parallel.data=2"}),
                           TinyRun::steps(step + 1, "open", {"lr.peak=2e-3", "lr.type=constant"}),
                           TinyRun::steps(3, "new", {"lr.peak=2e-3"})}) {
    const ProcessResult checked = check(fine);
    EXPECT_EQ(checked.out, "no problem found\n") << checked.err;
  }
  EXPECT_TRUE(snapshot("run") == before);
  EXPECT_FALSE(fs::exists(run_.at("new")));
}

// The end of a decay that nobody set is the last step: a longer run has another curve.
TEST_F(SecondStart, AGrowingRunIsToldOfItsDecay) {
  ASSERT_EQ(run_.train(TinyRun::steps(6, "run")).exit_code, 0);
  const std::string told =
      "warning: lr.decay_steps follows run.steps: it was 6 and is 9 from here on; --set "
      "lr.decay_steps=6 keeps it\n";
  for (const std::string key : {"lr.warmup_steps=4", "lr.decay_steps=auto"}) {
    const ProcessResult checked = check(TinyRun::steps(9, "run", {key}));
    EXPECT_EQ(checked.out, "1 warning\n") << checked.err;
    EXPECT_EQ(checked.err, told);
  }
  EXPECT_EQ(check(TinyRun::steps(9, "run", {"lr.decay_steps=6"})).out, "no problem found\n");
  EXPECT_THAT(check(TinyRun::steps(9, "run", {"lr.decay_steps=9"})).err,
              HasSubstr("\n  lr.decay_steps: 6, now 9\n"));
  const ProcessResult kept = run_.train(TinyRun::steps(7, "run", {"lr.decay_steps=6"}));
  EXPECT_EQ(kept.exit_code, 0) << kept.err;
  EXPECT_EQ(rate("run", 7), 0);
  ASSERT_EQ(run_.train(TinyRun::steps(9, "long")).exit_code, 0);
  ASSERT_EQ(run_.train(TinyRun::steps(6, "short")).exit_code, 0);
  const ProcessResult longer = run_.train(TinyRun::steps(9, "short"));
  EXPECT_THAT(longer.err, HasSubstr(told));
  EXPECT_EQ(rate("short", 7), rate("long", 7));
}

// Also where a schedule does not say by a key that it looks at the length.
TEST_F(SecondStart, AGrowingRunIsToldOfRatesThatFollowItsLength) {
  const std::vector<std::string> rates = {
      testing::broken_plugins(), "lr.type=test_broken_lr", "lr.how=by_length"};
  const ProcessResult first = run_.train(TinyRun::steps(4, "run", rates));
  ASSERT_EQ(first.exit_code, 0) << first.err;
  EXPECT_THAT(run_.train(TinyRun::steps(5, "run", rates)),
              Exits(0,
                    "warning: [lr] type = \"test_broken_lr\" follows run.steps, which was 4 and "
                    "is 5: the learning rate of update 1 is 0.0002 now, and not 0.00025\n"));
}

// Nothing of a finished run is written, so its disk need not let it.
TEST_F(SecondStart, AFinishedRunOnADiskThatIsReadOnly) {
  if (run_process({"unshare", "-rm", "true"}).exit_code != 0) {
    GTEST_SKIP() << "this system lets no user mount";
  }
  ASSERT_EQ(run_.train(TinyRun::steps(3, "run", {"checkpoint.every_steps=2"})).exit_code, 0);
  const auto read_only = [&](const std::vector<std::string>& sets) {
    std::string line;
    for (const std::string& word : run_.command(sets)) line += " '" + word + "'";
    return run_process(
        {"unshare",
         "-rm",
         "sh",
         "-c",
         "mount --bind run run && mount -o remount,bind,ro run && touch run/x || exec" + line},
        run_.options());
  };
  for (const std::string ranks : {"parallel.data=1", "parallel.data=2"}) {
    EXPECT_THAT(read_only(TinyRun::steps(3, "run", {ranks})),
                Exits(0, "this run is already finished: " + run_.at("run/checkpoints/step-3")));
    EXPECT_THAT(read_only(TinyRun::steps(4, "run", {ranks})),
                Exits(1, "cannot write to " + run_.at("run") + ": Read-only file"));
  }
  run_.folder.write("run/checkpoints/step-3/rank-00000.safetensors", "damaged");
  EXPECT_THAT(read_only(TinyRun::steps(3, "run")),
              Exits(2,
                    run_.at("run") + " is read-only; this run goes on from " +
                        run_.at("run/checkpoints/step-2")));
}

TEST_F(SecondStart, AFinishedRunGrowsAndChangesWhereItsCheckpointIsNamed) {
  ASSERT_EQ(run_.train(TinyRun::steps(3, "run")).exit_code, 0);
  const ProcessResult longer = run_.train(TinyRun::steps(5, "run"));
  EXPECT_EQ(longer.exit_code, 0) << longer.err;
  EXPECT_THAT(run_.train(TinyRun::steps(
                  7, "run", {"lr.peak=2e-3", "checkpoint.resume=run/checkpoints/step-5"})),
              Exits(0, "  lr.peak: 0.001, now 0.002\n"));
  EXPECT_EQ(run_.metrics("run").size(), 7U);
}

TEST_F(SecondStart, AnUnfinishedRunMayChangeKeysAndItsRecordHasBoth) {
  const int step = stopped_run("run");
  const std::string first = run_.folder.read("run/resolved.toml");
  const ProcessResult second =
      run_.train(TinyRun::steps(step + 2, "run", {"lr.peak=2e-3", "optimizer.clip=0.5"}));
  EXPECT_EQ(second.exit_code, 0) << second.err;
  EXPECT_EQ(run_.folder.read("run/resolved.1.toml"), first);
  EXPECT_THAT(run_.folder.read("run/resolved.toml"), HasSubstr("peak = 0.002"));
  const auto lines = history("run");
  ASSERT_EQ(lines.size(), 4U);
  EXPECT_EQ(lines[0]["event"], "start");
  EXPECT_EQ(lines[0]["step"], 0);
  EXPECT_EQ(lines[1]["event"], "end");
  EXPECT_EQ(lines[1]["outcome"], "stopped");
  EXPECT_EQ(lines[1]["step"], step);
  EXPECT_EQ(lines[2]["step"], step);
  EXPECT_EQ(lines[2]["resumed_from"], run_.at("run/checkpoints/step-" + std::to_string(step)));
  EXPECT_THAT(lines[2]["changed"].get<std::vector<std::string>>(),
              ElementsAre(fmt::format("run.steps: 100000, now {}", step + 2),
                          "optimizer.clip: 1.0, now 0.5",
                          "lr.peak: 0.001, now 0.002"));
  EXPECT_EQ(lines[3]["outcome"], "finished");
  EXPECT_EQ(lines[3]["step"], step + 2);
}

TEST_F(SecondStart, ARunsHistoryHasWhatMadeItAndTellsOfAnother) {
  const auto sets = TinyRun::steps(3, "run");
  ASSERT_EQ(run_.train(sets).exit_code, 0);
  const auto start = history("run").at(0);
  const std::string version = run_tessera({"--version"}).out;
  EXPECT_THAT(version, HasSubstr("tessera " + start["tessera"].get<std::string>() + "\n"));
  EXPECT_THAT(start["tessera"].get<std::string>(), HasSubstr(", commit "));
  EXPECT_THAT(start["device"].get<std::string>(), HasSubstr("cpu"));
  EXPECT_NE(start["host"].get<std::string>(), "");
  EXPECT_EQ(start["command"].get<std::vector<std::string>>(), run_.command(sets));
  EXPECT_THAT(start["plugins"].get<std::vector<std::string>>(),
              Contains(::testing::StartsWith("byte 0.1.0, ABI ")));
  EXPECT_THAT(start["time"].get<std::string>(), ::testing::EndsWith("Z"));

  std::string text = run_.folder.read("run/history.jsonl");
  const std::string host = "\"host\":\"" + start["host"].get<std::string>() + "\"";
  text.replace(text.find(host), host.size(), "\"host\":\"elsewhere\"");
  text.replace(text.find("\"byte 0.1.0"), 11, "\"byte 0.0.9");
  run_.folder.write("run/history.jsonl", text);
  EXPECT_THAT(run_.train(TinyRun::steps(4, "run")),
              Exits(0,
                    "this part of the run is not made by the same as the last one:",
                    "\n  host: elsewhere, now " + start["host"].get<std::string>(),
                    "\n  other versions or files of the plugins byte\n"));
  EXPECT_THAT(run_.train(TinyRun::steps(5, "run")).err, Not(HasSubstr("not made by the same")));
}

TEST_F(SecondStart, AFailureIsInTheHistory) {
  const ProcessResult failed = run_.train(
      TinyRun::steps(5, "run", {"lr.type=constant", "lr.peak=1e30", "lr.warmup_steps=0"}));
  EXPECT_EQ(failed.exit_code, 1);
  const auto end = history("run").at(1);
  EXPECT_EQ(end["outcome"], "failed");
  EXPECT_THAT(end["error"].get<std::string>(), HasSubstr("the run has diverged"));
}

// What makes a folder says what is in its way.
TEST_F(SecondStart, LinksThatLeadNowhereAreNamedByAllThatMakeFolders) {
  ASSERT_EQ(run_.train(TinyRun::steps(1, "run")).exit_code, 0);
  fs::create_symlink("nowhere", run_.at("dangling"));
  fs::create_symlink("circle", run_.at("circle"));
  for (const auto& [name, why] : std::vector<std::pair<std::string, std::string>>{
           {"dangling",
            " is a link to nowhere, which does not exist; make that folder, or remove the link\n"},
           {"circle", " is a link to circle, which leads back to it; remove the link\n"}}) {
    const std::string text = run_.at(name) + why;
    for (const auto& words :
         std::vector<std::vector<std::string>>{{"convert", "--from", run_.at("run"), "--to"},
                                               {"checkpoint", "reshard", run_.at("run")}}) {
      for (const std::string below : {"", "/below"}) {
        std::vector<std::string> command = words;
        command.push_back(run_.at(name) + below);
        EXPECT_THAT(run_tessera(command), Exits(2, ::testing::EndsWith(text))) << words[0];
      }
    }
    const ProcessResult train = run_.train(TinyRun::steps(1, name));
    EXPECT_EQ(train.exit_code, 2);
    EXPECT_EQ(train.err, fmt::format("--set #2: [run] out = \"{}\": {}", run_.at(name), text));
    const ProcessResult made =
        run_tessera({"new", "layer", "mine", "--into", run_.at(name) + "/below"});
    EXPECT_THAT(made.err, HasSubstr("mine: " + text));
  }
}

// --- keys that change what parameters compute ---

TEST_F(SecondStart, StructuralKeysAreRefusedWhereACheckpointIsUsed) {
  ASSERT_EQ(run_.train(TinyRun::steps(2, "base")).exit_code, 0);
  const std::string step = run_.at("base/checkpoints/step-2");
  for (const auto& [key, change] : std::vector<std::pair<std::string, std::string>>{
           {"model.heads=4", "model.heads: 6, now 4"},
           {"model.block.attention.causal=false", "model.block.attention.causal: true, now false"},
           {"model.block.norm.eps=0.1", "model.block.norm.eps: 1e-05, now 0.1"}}) {
    const std::string line = "\n  " + change + "\n";
    EXPECT_THAT(run_.train(TinyRun::steps(4, "new", {key, "checkpoint.resume=" + step})),
                Exits(2, line, "checkpoint.init_changes"))
        << key;
    EXPECT_THAT(run_.train(TinyRun::steps(4, "new", {key, "checkpoint.init_from=base"})),
                Exits(2,
                      "checkpoint.init_from: the parameters of " + step +
                          " mean something else here:" + line,
                      "--set #4: ",
                      "checkpoint.init_changes"))
        << key;
    EXPECT_THAT(
        run_tessera({"generate", "--checkpoint", run_.at("base"), "--prompt", "the", "--set", key}),
        Exits(2, step + ": its parameters", line))
        << key;
    EXPECT_THAT(
        run_tessera({"checkpoint", "reshard", run_.at("base"), run_.at("moved"), "--set", key}),
        Exits(2, line));
  }
  EXPECT_FALSE(fs::exists(run_.at("new/checkpoints/step-4")));
  // What only says how it is trained is no such key.
  const ProcessResult free = run_.train(TinyRun::steps(
      3, "free", {"model.dropout=0", "model.init_std=0.1", "checkpoint.init_from=base"}));
  EXPECT_EQ(free.exit_code, 0) << free.err;
}

TEST_F(SecondStart, WhatMayDifferIsNamed) {
  ASSERT_EQ(run_.train(TinyRun::steps(2, "base")).exit_code, 0);
  const auto begin = [&](const std::string& changes) {
    return run_.train(TinyRun::steps(
        1,
        "new",
        {"checkpoint.init_from=base", "model.heads=4", "model.block.norm.eps=0.1", changes}));
  };
  EXPECT_THAT(begin("checkpoint.init_changes=[\"model.heads\"]"),
              Exits(2, "norm.eps: 1e-05, now 0.1", Not(HasSubstr("model.heads:"))));
  EXPECT_THAT(begin("checkpoint.init_changes=[\"model.*\", \"model.block.attention.causal\"]"),
              Exits(2,
                    "checkpoint.init_changes: \"model.block.attention.causal\" names nothing that "
                    "differs from the checkpoint"));
  EXPECT_EQ(begin("checkpoint.init_changes=[\"model.heads\", \"*.eps\"]").exit_code, 0);
  EXPECT_THAT(run_.train(TinyRun::steps(1, "alone", {"checkpoint.init_changes=[\"model.heads\"]"})),
              Exits(2, "init_changes: has no effect without init_from"));
}

TEST_F(SecondStart, StructuralKeysOfExperts) {
  const std::vector<std::string> moe = {
      "model.block.mlp.type=moe", "model.block.mlp.experts=4", "model.block.mlp.ffn=16"};
  ASSERT_EQ(run_.train(TinyRun::steps(1, "base", moe)).exit_code, 0);
  for (const auto& [key, change] : std::vector<std::pair<std::string, std::string>>{
           {"top_k=3", "top_k: 2, now 3"},
           {"router.score=\"sigmoid\"", "router.score: \"softmax\", now \"sigmoid\""},
           {"router.scale=2.0", "router.scale: 1.0, now 2.0"},
           {"router.type=\"expert_choice\"", "router.type: \"top_k\", now \"expert_choice\""}}) {
    std::vector<std::string> sets = moe;
    sets.insert(sets.end(), {"model.block.mlp." + key, "checkpoint.init_from=base"});
    EXPECT_THAT(check(TinyRun::steps(1, "new", sets)),
                Exits(2, "\n  model.block.mlp." + change + "\n"))
        << key;
  }
  // Rows come back as they went, whatever carries them.
  std::vector<std::string> sets = moe;
  sets.insert(sets.end(),
              {"model.block.mlp.dispatcher.type=\"allgather\"",
               "model.block.mlp.capacity_factor=2.0",
               "checkpoint.init_from=base"});
  const ProcessResult carried = check(TinyRun::steps(1, "new", sets));
  EXPECT_EQ(carried.exit_code, 0) << carried.err;
}

// --- another tokenizer ---

// Files of a tokenizer, and those of one with the same tokens in reverse order.
TEST_F(SecondStart, AnotherVocabularyOfTheSameSize) {
  Gpt2Files files;
  files.merge("t", "h");
  files.merge("th", "e");
  run_.folder.write("tk/vocab.json", files.vocabulary());
  run_.folder.write("tk/merges.txt", files.merges());
  const std::vector<std::string> gpt2 = {"tokenizer.type=gpt2", "tokenizer.path=tk"};
  const ProcessResult trained = run_.train(TinyRun::steps(1, "run", gpt2));
  if (trained.err.find("without: install libpcre2-dev") != std::string::npos) {
    GTEST_SKIP() << trained.err;
  }
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  auto vocabulary = nlohmann::json::parse(files.vocabulary());
  const auto size = static_cast<int>(vocabulary.size());
  for (auto& [token, id] : vocabulary.items()) id = size - 1 - id.get<int>();
  run_.folder.write("tk/vocab.json", vocabulary.dump());

  const std::string step = run_.at("run/checkpoints/step-1");
  EXPECT_THAT(
      run_tessera({"generate", "--checkpoint", run_.at("run"), "--prompt", "the", "--tokens", "1"}),
      Exits(0,
            "warning: " + step +
                " was trained with the tokenizer \"gpt2: 258 "
                "tokens, ",
            "tokenizer.path"));
  EXPECT_THAT(run_tessera({"convert", "--from", run_.at("run"), "--to", run_.at("theirs")}),
              Exits(2, step + " was trained with the tokenizer ", "--no-tokenizer"));
  EXPECT_FALSE(fs::exists(run_.at("theirs")));
  std::vector<std::string> from = gpt2;
  from.emplace_back("checkpoint.init_from=run");
  EXPECT_THAT(run_.train(TinyRun::steps(1, "new", from)),
              Exits(2, "\n  tokenizer: \"gpt2: 258 tokens, ", "init_changes"));
  from.emplace_back("checkpoint.init_changes=tokenizer");
  EXPECT_EQ(run_.train(TinyRun::steps(1, "new", from)).exit_code, 0);
  EXPECT_THAT(run_.train(TinyRun::steps(3, "run", gpt2)), Exits(2, "\n  tokenizer: \"gpt2: "));
  // The same files elsewhere are the same tokenizer, in whatever order they list tokens.
  run_.folder.write("moved/vocab.json", nlohmann::json::parse(files.vocabulary()).dump(2));
  run_.folder.write("moved/merges.txt", files.merges());
  const ProcessResult moved =
      run_.train(TinyRun::steps(3, "run", {"tokenizer.type=gpt2", "tokenizer.path=moved"}));
  EXPECT_EQ(moved.exit_code, 0) << moved.err;
}

}  // namespace second_start_test
}  // namespace tessera
