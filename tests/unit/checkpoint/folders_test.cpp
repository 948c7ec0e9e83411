#include "kernel/checkpoint/folders.hpp"

#include <gmock/gmock.h>
#include <unistd.h>

#include <filesystem>
#include <set>

#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace folders_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class CheckpointFolders : public ::testing::Test {
 protected:
  void complete(const std::string& name, const std::string& content = "good") const {
    folder_.write(name + "/rank-00000.safetensors", content);
    folder_.write(name + "/index.json", content);
  }
  void started(const std::string& name) const {
    folder_.write(name + "/rank-00000.safetensors", "half");
  }
  std::vector<std::string> found() const {
    std::vector<std::string> names;
    for (const fs::path& path : complete_steps(folder_.path())) names.push_back(path.filename());
    return names;
  }
  std::set<std::string> there() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_.path())) {
      names.insert(entry.path().filename());
    }
    return names;
  }
  fs::path at(const std::string& name) const { return folder_.at(name); }
  const TestFolder folder_;
};

TEST_F(CheckpointFolders, ScanFindsTheCompleteOnesByNumber) {
  for (const auto* name : {"step-9", "step-100", "step-20"}) complete(name);
  started("step-300");
  complete("step-400.run.tmp");
  complete("step-");
  complete("step-x");
  complete("step--5");
  complete("step-7b");
  complete("step-99999999999999999999");
  complete("other");
  folder_.write("step-500", "a file");
  EXPECT_THAT(found(), ElementsAre("step-100", "step-20", "step-9"));
}

// What a stray command leaves, and steps that were moved to another disk.
TEST_F(CheckpointFolders, WhatIsNoFolderIsNoStep) {
  complete("step-5");
  folder_.write("step-12", "");
  fs::create_symlink("nowhere", at("step-13"));
  fs::create_symlink("step-14", at("step-14"));
  complete("elsewhere");
  fs::create_directory_symlink(at("elsewhere"), at("step-8"));
  std::vector<std::string> names;
  for (const StepFolder& step : step_folders(folder_.path())) {
    EXPECT_TRUE(step.complete) << step.path;
    names.push_back(step.path.filename());
  }
  EXPECT_THAT(names, ElementsAre("step-8", "step-5"));
}

TEST_F(CheckpointFolders, TheNewestIsTakenWithAWarningOfNewerOnesWithoutAnIndex) {
  for (const auto* name : {"run/checkpoints/step-5", "run/checkpoints/step-10"}) complete(name);
  started("run/checkpoints/step-7");
  const auto warning = [&](const std::string& name) {
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(newest_checkpoint(at(name)), at("run/checkpoints/step-10")) << name;
    return ::testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(warning("run"), "");
  EXPECT_FALSE(warn_of_incomplete(at("run/checkpoints")));
  started("run/checkpoints/step-11");
  started("run/checkpoints/step-12.run.tmp");  // being saved
  const std::string told = "step-11 is not complete, it has no index.json: it is passed over\n";
  for (const std::string name : {"run", "run/checkpoints"}) {
    EXPECT_THAT(warning(name), AllOf(HasSubstr(told), Not(HasSubstr("step-7")))) << name;
  }
  EXPECT_EQ(warning("run/checkpoints/step-10"), "") << "what was asked for is there";
  EXPECT_TRUE(warn_of_incomplete(at("run/checkpoints")));
}

TEST_F(CheckpointFolders, NoFolderHoldsNone) {
  EXPECT_THAT(complete_steps(at("none")), IsEmpty());
  EXPECT_THAT(step_folders(at("none")), IsEmpty());
}

// Nothing found must not be taken for nothing there.
TEST_F(CheckpointFolders, AFolderThatCannotBeReadIsAnError) {
  const std::string file = folder_.write("file", "");
  EXPECT_THAT(text_of<Error>([&] { complete_steps(file); }),
              AllOf(HasSubstr("cannot read "), HasSubstr("Not a directory")));
}

TEST_F(CheckpointFolders, KeepsTheNewest) {
  for (const auto* name : {"step-1", "step-2", "step-10", "step-30"}) complete(name);
  remove_old(folder_.path(), 30, 2, "run");
  EXPECT_THAT(there(), ElementsAre("step-10", "step-30"));
}

// A run that fell back to an earlier step keeps what it saves, and what it came from.
TEST_F(CheckpointFolders, LaterStepsNeitherCountNorGo) {
  for (const auto* name : {"step-5", "step-10", "step-15", "step-90"}) complete(name);
  remove_old(folder_.path(), 15, 1, "run");
  EXPECT_THAT(there(), ElementsAre("step-15", "step-90"));
}

TEST_F(CheckpointFolders, StaleFoldersOfThisRunGo) {
  complete("step-5");
  complete("step-5.old");
  complete("step-6.old");  // all there is of step 6
  started("step-7.run.tmp");
  complete("step-7.other.tmp");
  started("step-8");
  folder_.write("step-9.run.tmp", "a file in the way of saving step 9");
  remove_stale(folder_.path(), "run");
  EXPECT_THAT(there(), ElementsAre("step-5", "step-6.old", "step-7.other.tmp", "step-8"));
}

TEST_F(CheckpointFolders, TemporaryFoldersAreOnePerRun) {
  EXPECT_EQ(temporary_folder("c", 5, "a"), "c/step-5.a.tmp");
  EXPECT_EQ(temporary_folder("c", 5, "a/../b"), "c/step-5.a_.._b.tmp");
}

TEST_F(CheckpointFolders, ReplacingLeavesTheNewOneOnly) {
  complete("step-5", "older");
  complete("step-5.run.tmp", "newer");
  replace_folder(at("step-5.run.tmp"), at("step-5"));
  EXPECT_THAT(there(), ElementsAre("step-5"));
  EXPECT_EQ(folder_.read("step-5/index.json"), "newer");
}

TEST_F(CheckpointFolders, WhatIsNoCheckpointMakesWayAndIsKept) {
  started("step-5");
  complete("step-5.old", "older");
  complete("step-5.run.tmp", "newer");
  replace_folder(at("step-5.run.tmp"), at("step-5"));
  EXPECT_THAT(there(), ElementsAre("step-5", "step-5.1"));
  EXPECT_EQ(folder_.read("step-5/index.json"), "newer");
  folder_.write("step-6", "somebody's");
  complete("step-6.run.tmp", "newer");
  replace_folder(at("step-6.run.tmp"), at("step-6"));
  EXPECT_EQ(folder_.read("step-6.1"), "somebody's");
  EXPECT_THAT(found(), ElementsAre("step-6", "step-5"));
}

// What is on the disk when the process dies between two of replace_folder's system calls.
TEST_F(CheckpointFolders, AtEveryMomentOfReplacingOneIsFound) {
  complete("step-5", "older");
  complete("step-5.run.tmp", "newer");
  EXPECT_THAT(found(), ElementsAre("step-5"));
  fs::rename(at("step-5"), at("step-5.old"));
  EXPECT_THAT(found(), ElementsAre("step-5.old"));
  // The run resumes from it, and the next save cleans up.
  remove_stale(folder_.path(), "run");
  EXPECT_THAT(there(), ElementsAre("step-5.old"));
  complete("step-5.run.tmp", "again");
  replace_folder(at("step-5.run.tmp"), at("step-5"));
  EXPECT_THAT(there(), ElementsAre("step-5"));
  EXPECT_EQ(folder_.read("step-5/index.json"), "again");
  // Dead before the older one was removed.
  complete("step-5.old", "older");
  EXPECT_THAT(found(), ElementsAre("step-5"));
}

TEST_F(CheckpointFolders, UsersMayNameRunFolderOrCheckpoint) {
  complete("run/checkpoints/step-5");
  complete("run/checkpoints/step-10");
  const auto newest = [&](const std::string& name) { return find_checkpoints(at(name)).at(0); };
  EXPECT_EQ(newest("run"), at("run/checkpoints/step-10"));
  EXPECT_EQ(newest("run/checkpoints"), at("run/checkpoints/step-10"));
  EXPECT_EQ(newest("run/checkpoints/step-5"), at("run/checkpoints/step-5"));
  started("run/checkpoints/step-11");
  EXPECT_THAT(text_of<ConfigError>([&] { newest("run/checkpoints/step-11"); }),
              HasSubstr("step-11 holds no complete checkpoint; a complete one has an index.json"));
  EXPECT_THAT(text_of<ConfigError>([&] { newest("none"); }), HasSubstr("there is no checkpoint"));
}

TEST_F(CheckpointFolders, WhatIsNoPathIsAnErrorOfOneLine) {
  const std::string much(100'000, 'a');
  const std::vector<std::pair<std::string, std::string>> shown = {
      {"none\nhere\x1b", "none\\nhere\\u001B"},
      {much, much.substr(0, 400) + "...: File name too long"}};
  for (const auto& [name, text] : shown) {
    EXPECT_EQ(text_of<ConfigError>([&name = name] { find_checkpoints(name); }),
              "there is no checkpoint " + text);
  }
}

TEST_F(CheckpointFolders, ARunGoesOnFromTheNewestOrHasTheFolderAlone) {
  const std::string folder = folder_.at("run"), other = folder_.at("other");
  complete("other/step-3");
  EXPECT_NO_THROW(require_no_mixture(folder, "none"));
  EXPECT_NO_THROW(require_no_mixture(folder, other));
  complete("run/step-2");
  complete("run/step-10");
  EXPECT_NO_THROW(require_no_mixture(folder, "auto"));
  EXPECT_NO_THROW(require_no_mixture(folder, folder));
  EXPECT_NO_THROW(require_no_mixture(folder, folder + "/step-10"));
  for (const std::string& resume : {std::string("none"), folder + "/step-2", other}) {
    EXPECT_THAT(text_of<ConfigError>([&] { require_no_mixture(folder, resume); }),
                AllOf(HasSubstr("(the newest is step-10)"), HasSubstr("set another run.out")));
  }
}

TEST_F(CheckpointFolders, OneRunSavesIntoAFolder) {
  const fs::path folder = at("new/checkpoints");
  {
    const auto lock = [&](std::string_view name, std::string_view key) {
      return FolderLock(folder, name, key);
    };
    const FolderLock first = lock(".lock", "checkpoint.out");
    EXPECT_THAT(text_of<Error>([&] { lock(".lock", "checkpoint.out"); }),
                AllOf(HasSubstr("checkpoints is in use: process " + std::to_string(getpid())),
                      HasSubstr("set another checkpoint.out")));
    const FolderLock run = lock(".run.lock", "run.out");
    EXPECT_THAT(text_of<Error>([&] { lock(".run.lock", "run.out"); }),
                HasSubstr("set another run.out"));
  }
  EXPECT_NO_THROW(FolderLock(folder, ".lock", "checkpoint.out"));
}

TEST_F(CheckpointFolders, ALockIsLostWithItsFile) {
  const fs::path folder = at("run");
  const FolderLock lock(folder, ".lock", "checkpoint.out");
  EXPECT_TRUE(lock.holds());
  fs::remove(folder / ".lock");
  EXPECT_FALSE(lock.holds());
  const FolderLock other(folder, ".lock", "checkpoint.out");
  EXPECT_FALSE(lock.holds());
  EXPECT_TRUE(other.holds());
  fs::remove_all(folder);
  EXPECT_FALSE(other.holds());
}

TEST_F(CheckpointFolders, AFolderThatCannotBeMadeIsNamed) {
  folder_.write("file", "");
  EXPECT_THAT(text_of<Error>([&] { FolderLock(at("file/checkpoints"), ".lock", "OUT"); }),
              AllOf(HasSubstr("cannot make the folder "), HasSubstr("file is not a folder")));
}

}  // namespace folders_test
}  // namespace tessera
