#include "kernel/checkpoint/checkpoints.hpp"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>

#include "kernel/checkpoint/folders.hpp"
#include "kernel/checkpoint/stored_reader.hpp"
#include "kernel/comm/control_plane/control_plane.hpp"
#include "tests/unit/checkpoint/world_support.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace checkpoints_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

class CheckpointTest : public ::testing::Test {
 protected:
  std::string path() const { return folder_.path(); }
  std::set<std::string> names() const {
    std::set<std::string> found;
    for (const auto& entry : fs::recursive_directory_iterator(folder_.path())) {
      found.insert(fs::relative(entry.path(), folder_.path()));
    }
    found.erase(".lock");
    return found;
  }
  void flip(const std::string& file, i64 from_end) const {
    std::fstream out(folder_.at(file), std::ios::in | std::ios::out | std::ios::binary);
    out.seekg(-from_end, std::ios::end);
    const auto byte = static_cast<char>(out.get() ^ 1);
    out.seekp(-from_end, std::ios::end);
    out.put(byte);
  }
  // Loads on every rank; the step that was loaded, 0 for none, or the errors of all ranks.
  std::vector<std::string> load(const Layout& layout, const std::string& resume) const {
    std::vector<std::string> loaded(static_cast<std::size_t>(layout.world));
    const auto errors = on_ranks(layout, path(), [&](CheckpointRank& rank) {
      rank.spoil();
      const auto from = rank.checkpoints().load(resume, rank.tensors);
      const i64 step = from ? from->info.step : 0;
      if (from) {
        EXPECT_EQ(rank.wrong(step), "");
      }
      loaded[static_cast<std::size_t>(rank.mesh().rank())] = std::to_string(step);
    });
    for (std::size_t i = 0; i < errors.size(); ++i) {
      if (!errors[i].empty()) loaded[i] = errors[i];
    }
    return loaded;
  }
  const TestFolder folder_;
  const Layout one_ = world_of(1, 1), two_ = world_of(2, 1), four_ = world_of(2, 2);
};

TEST_F(CheckpointTest, EveryLayoutReadsWhatAnyWrote) {
  const std::vector<Layout> layouts = {one_, two_, world_of(1, 2), four_, world_of(1, 3)};
  i64 step = 0;
  for (const Layout& from : layouts) {
    save_step(from, path(), ++step);
    for (const Layout& to : layouts) {
      EXPECT_THAT(load(to, folder_.at("step-" + std::to_string(step))), Each(std::to_string(step)))
          << from.tensor << "x" << from.world << " to " << to.tensor << "x" << to.world;
    }
  }
}

// What is stored must not depend on who stored it.
TEST_F(CheckpointTest, EveryElementIsStoredOnceAndUnpadded) {
  for (const Layout& layout : {one_, two_, world_of(1, 2), four_}) {
    save_step(layout, path(), 1);
    const CheckpointIndex index = read_index(folder_.at("step-1"));
    EXPECT_EQ(index.tensors.at("vocabulary").shape, (std::vector<i64>{13, 4}));
    EXPECT_EQ(index.tensors.size(), 6U);
    i64 bytes = 0;
    for (const auto& [name, tensor] : index.tensors) {
      for (const StoredSlice& slice : tensor.slices) {
        bytes += slice.where.elements() * (tensor.dtype == "fp64" ? 8 : 4);
      }
    }
    EXPECT_EQ(bytes, (13 * 4 + 12 * 6 + 6 * 8 + 5 + 1) * 4 + 12 * 6 * 8);
  }
}

// Optimizer state that is cut over the replicas: any layout reads it, in shares or whole, and the
// other way round.
TEST_F(CheckpointTest, SharesAreReadWholeAndAsOtherShares) {
  const std::vector<Layout> layouts = {one_, world_of(1, 2), four_, world_of(1, 3), world_of(2, 3)};
  i64 step = 0;
  for (const Layout& from : layouts) {
    for (const bool shares : {true, false}) {
      ++step;
      run_ranks(from, path(), [&](CheckpointRank& rank) {
        if (shares) rank.keep_share();
        rank.fill(step);
        rank.checkpoints().save(info_at(step), rank.tensors);
      });
      for (const Layout& to : layouts) {
        SCOPED_TRACE(fmt::format(
            "{}x{} to {}x{}, shares {}", from.tensor, from.world, to.tensor, to.world, shares));
        run_ranks(to, path(), [&](CheckpointRank& rank) {
          rank.keep_share();
          rank.spoil();
          ASSERT_TRUE(rank.checkpoints().load("auto", rank.tensors));
          EXPECT_EQ(rank.wrong(step), "") << "rank " << rank.mesh().rank();
        });
        EXPECT_THAT(load(to, "auto"), Each(std::to_string(step)));
      }
    }
  }
}

TEST_F(CheckpointTest, EveryElementOfSharesIsStoredOnce) {
  for (const Layout& layout : {world_of(1, 2), four_, world_of(2, 3)}) {
    run_ranks(layout, path(), [&](CheckpointRank& rank) {
      rank.keep_share();
      rank.fill(1);
      rank.checkpoints().save(info_at(1), rank.tensors);
    });
    const CheckpointIndex index = read_index(folder_.at("step-1"));
    for (const auto& [name, tensor] : index.tensors) {
      i64 elements = 1, stored = 0;
      for (const i64 size : tensor.shape) elements *= size;
      for (const StoredSlice& slice : tensor.slices) {
        stored += slice.where.elements();
        for (const StoredSlice& other : tensor.slices) {
          EXPECT_TRUE(&slice == &other || !slice.where.overlaps(other.where)) << name;
        }
      }
      EXPECT_EQ(stored, elements) << name;
    }
  }
}

TEST_F(CheckpointTest, InfoComesBack) {
  save_step(two_, path(), 7);
  run_ranks(two_, path(), [](CheckpointRank& rank) {
    const CheckpointInfo info = rank.checkpoints().load("auto", rank.tensors)->info;
    EXPECT_EQ(info.step, 7);
    EXPECT_EQ(info.updates, 6);
    EXPECT_EQ(info.samples, 56);
    EXPECT_EQ(info.seed, 11U);
    EXPECT_EQ(info.data, "text");
    EXPECT_EQ(info.config, "schema = 1\n");
  });
}

TEST_F(CheckpointTest, OnlyWhatBelongsToItIsLeft) {
  save_step(four_, path(), 5);
  EXPECT_THAT(names(),
              ElementsAre("step-5",
                          "step-5/index.json",
                          "step-5/rank-00000.safetensors",
                          "step-5/rank-00001.safetensors",
                          "step-5/rank-00002.safetensors",
                          "step-5/rank-00003.safetensors"));
}

TEST_F(CheckpointTest, KeepsTheNewest) {
  for (const i64 step : {1, 2, 3, 4}) save_step(two_, path(), step, 2);
  EXPECT_THAT(complete_steps(path()), ElementsAre(folder_.at("step-4"), folder_.at("step-3")));
}

TEST_F(CheckpointTest, SavingAStepAgainReplacesIt) {
  save_step(four_, path(), 5);
  save_step(one_, path(), 5);
  EXPECT_THAT(names(), ElementsAre("step-5", "step-5/index.json", "step-5/rank-00000.safetensors"));
  EXPECT_THAT(load(two_, "auto"), Each("5"));
}

TEST_F(CheckpointTest, LeftoversOfACrashAreRemovedBySaving) {
  folder_.write("step-4.run.tmp/rank-00000.safetensors", "half");
  folder_.write("step-5.run.tmp/rank-00007.safetensors", "half");
  folder_.write("step-4.other.tmp/rank-00000.safetensors", "of another run");
  save_step(one_, path(), 5);
  EXPECT_THAT(names(), Not(::testing::Contains(StartsWith("step-4.run"))));
  EXPECT_THAT(names(), ::testing::Contains("step-4.other.tmp"));
  EXPECT_THAT(names(), Not(::testing::Contains("step-5/rank-00007.safetensors")));
}

// A run that was killed while it removed an old one may have nothing left to save.
TEST_F(CheckpointTest, LeftoversOfACrashAreRemovedWhenTheRunStartsAgain) {
  folder_.write("step-4.run.tmp/rank-00000.safetensors", "half");
  folder_.write("step-4.other.tmp/rank-00000.safetensors", "of another run");
  run_ranks(one_, path(), [](CheckpointRank& rank) { Checkpoints(rank.arguments).claim(); });
  EXPECT_THAT(names(), Not(::testing::Contains(StartsWith("step-4.run"))));
  EXPECT_THAT(names(), ::testing::Contains("step-4.other.tmp"));
}

// --- resume ---

TEST_F(CheckpointTest, ResumeAutoStartsAnewWhereNothingIs) {
  EXPECT_THAT(load(two_, "auto"), Each("0"));
  EXPECT_THAT(load(two_, "none"), Each("0"));
  save_step(two_, path(), 5);
  EXPECT_THAT(load(two_, "none"), Each("0"));
  EXPECT_THAT(load(two_, "auto"), Each("5"));
}

TEST_F(CheckpointTest, ResumeFromAPathThatIsNotThere) {
  EXPECT_THAT(load(two_, folder_.at("step-9")),
              Each(AllOf(StartsWith("2: there is no checkpoint "), HasSubstr("step-9"))));
}

TEST_F(CheckpointTest, ValuesThatAreNotFiniteAreNotSaved) {
  save_step(two_, path(), 5);
  const auto errors = on_ranks(two_, path(), [](CheckpointRank& rank) {
    rank.fill(10);
    const Tensor& last = rank.tensors.back().tensor;  // fp64, this rank's part of qkv/moment
    std::vector<double> values(static_cast<std::size_t>(last.bytes()) / sizeof(double), 1.0);
    if (!rank.root()) values.back() = -std::numeric_limits<double>::infinity();
    rank.arguments.device->write(last, values.data());
    rank.checkpoints().save(info_at(10), rank.tensors);
  });
  EXPECT_THAT(errors,
              Each(AllOf(HasSubstr("saving step 10 failed, older checkpoints are whole: "),
                         HasSubstr("\"qkv/moment\" has values that are not finite"))));
  EXPECT_THAT(load(two_, "auto"), Each("5"));
}

TEST_F(CheckpointTest, IncompleteOnesAreNotFound) {
  save_step(two_, path(), 5);
  save_step(two_, path(), 10);
  fs::remove(folder_.at("step-10/index.json"));
  EXPECT_THAT(load(two_, "auto"), Each("5"));
}

TEST_F(CheckpointTest, ADamagedNewestFallsBackOnAllRanks) {
  for (const i64 step : {5, 10, 15}) save_step(two_, path(), step);
  flip("step-15/rank-00001.safetensors", 5);  // only rank 1 reads it
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(load(two_, "auto"), Each("10"));
  const std::string warning = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(warning,
              AllOf(HasSubstr("step-15/rank-00001.safetensors is damaged: the checksum is wrong"),
                    HasSubstr("falling back to " + folder_.at("step-10"))));
  EXPECT_EQ(warning.find("falling back"), warning.rfind("falling back")) << "once, by rank 0";
}

TEST_F(CheckpointTest, WhatWasAskedForIsNotReplacedByAnother) {
  for (const i64 step : {5, 10}) save_step(one_, path(), step);
  flip("step-10/rank-00000.safetensors", 5);
  EXPECT_THAT(load(one_, folder_.at("step-10")), Each(StartsWith("1: checkpoint ")));
}

TEST_F(CheckpointTest, WhenAllAreDamagedTheRunFails) {
  for (const i64 step : {5, 10}) save_step(two_, path(), step);
  flip("step-10/index.json", 300);
  fs::resize_file(folder_.at("step-5/rank-00000.safetensors"), 500);
  ::testing::internal::CaptureStderr();
  EXPECT_THAT(load(two_, "auto"), Each(AllOf(StartsWith("1: checkpoint "), HasSubstr("step-5"))));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("step-10/index.json is damaged"));
}

// --- damage ---

TEST_F(CheckpointTest, DamageIsListedWithFileAndTensor) {
  save_step(two_, path(), 5);
  flip("step-5/rank-00000.safetensors", 12 * 6 * 4 + 10);  // in front of qkv/moment
  const std::string error = load(two_, folder_.at("step-5"))[0];
  EXPECT_THAT(error,
              AllOf(HasSubstr("step-5 is damaged:\n  tensor \""),
                    HasSubstr("step-5/rank-00000.safetensors is damaged: the checksum is "
                              "wrong")));
}

TEST_F(CheckpointTest, AMissingFileIsNamedWithItsTensors) {
  save_step(two_, path(), 5);
  fs::remove(folder_.at("step-5/rank-00001.safetensors"));
  EXPECT_THAT(load(one_, folder_.at("step-5")),
              Each(AllOf(HasSubstr("\n  tensors \""),
                         HasSubstr("\"qkv\""),
                         HasSubstr(" more: cannot open "),
                         EndsWith("step-5/rank-00001.safetensors: No such file or directory"))));
}

TEST_F(CheckpointTest, ADamagedHeaderIsToldOnce) {
  save_step(two_, path(), 5);
  const std::string file = "step-5/rank-00001.safetensors";
  flip(file, static_cast<i64>(folder_.read(file).size()) - 8);  // the first of the header
  const std::string text = text_of<Error>([&] { verify_checkpoint(folder_.at("step-5")); });
  const std::size_t told = text.find("rank-00001.safetensors is damaged: parse error");
  ASSERT_NE(told, std::string::npos) << text;
  EXPECT_EQ(text.find("rank-00001", told + 1), std::string::npos) << text;
}

TEST_F(CheckpointTest, FilesThatWereCutOffAreNamed) {
  save_step(one_, path(), 5);
  const auto size = fs::file_size(folder_.at("step-5/rank-00000.safetensors"));
  fs::resize_file(folder_.at("step-5/rank-00000.safetensors"), size - 1);
  EXPECT_THAT(load(one_, folder_.at("step-5")),
              Each(HasSubstr(fmt::format("it has {} bytes instead of {}", size - 1, size))));
}

TEST_F(CheckpointTest, AnyFlippedBitIsFound) {
  save_step(two_, path(), 5);
  for (const std::string file :
       {"step-5/rank-00000.safetensors", "step-5/rank-00001.safetensors"}) {
    const auto size = static_cast<i64>(fs::file_size(folder_.at(file)));
    int unnoticed = 0;
    for (i64 at = 1; at <= size; at += 3) {
      flip(file, at);
      try {
        verify_checkpoint(folder_.at("step-5"));
        ++unnoticed;  // padding of a header, or a name that no longer is one of ours
      } catch (const Error& error) {
        EXPECT_THAT(error.what(), HasSubstr(file));
      }
      flip(file, at);
    }
    EXPECT_LE(unnoticed, 4);
  }
  EXPECT_NO_THROW(verify_checkpoint(folder_.at("step-5")));
}

// --- what does not fit ---

TEST_F(CheckpointTest, WhatDoesNotFitTouchesNothing) {
  save_step(two_, path(), 5);
  on_ranks(two_, path(), [](CheckpointRank& rank) {
    rank.fill(3);
    rank.tensors.erase(rank.tensors.begin());
    EXPECT_THROW(rank.checkpoints().load("auto", rank.tensors), Error);
    EXPECT_EQ(rank.wrong(3), "");
  });
}

TEST_F(CheckpointTest, MismatchesAreListed) {
  save_step(two_, path(), 5);
  const auto errors = on_ranks(two_, path(), [](CheckpointRank& rank) {
    rank.tensors.erase(rank.tensors.begin());  // "vocabulary"
    rank.tensors[2].name = "norms";
    rank.add("added", {2}, {}, DType::fp32);
    rank.tensors[3].name = "qkv/moment";
    rank.tensors[4].name = "scalar";
    rank.checkpoints().load("auto", rank.tensors);
  });
  EXPECT_THAT(
      errors,
      Each(AllOf(
          StartsWith("2: checkpoint "),
          HasSubstr("step-5 does not fit this configuration:\n"
                    "  not in the checkpoint: norms, added\n"
                    "  not in this configuration: norm, vocabulary\n"
                    "  qkv/moment: fp64 [12, 6] in the checkpoint, fp32 [] in this configuration\n"
                    "  scalar: fp32 [] in the checkpoint, fp64 [12, 6] in this configuration"))));
}

// A rank of another pipeline stage knows that there is a parameter; the ranks that hold it know
// what state it has.
TEST_F(CheckpointTest, StateIsJudgedWhereItsParameterIs) {
  save_step(one_, path(), 5);  // "qkv" has a "moment"
  const auto error_of = [&](const std::vector<std::string>& not_here,
                            const std::vector<std::string>& others) {
    return on_ranks(one_, path(), [&](CheckpointRank& rank) {
      std::erase_if(rank.tensors, [&](const CheckpointTensor& tensor) {
        return std::ranges::find(not_here, tensor.name) != not_here.end();
      });
      rank.checkpoints().load("auto", rank.tensors, others);
    })[0];
  };
  EXPECT_EQ(error_of({"qkv", "qkv/moment"}, {"qkv", "norm"}), "");
  EXPECT_THAT(error_of({"qkv/moment"}, {"qkv", "norm"}),
              AllOf(HasSubstr("\n  not in this configuration: qkv/moment\n"),
                    HasSubstr("checkpoint.init_from = ")));
  EXPECT_EQ(error_of({"qkv/moment"}, {"qkv", "qkv/moment"}), "") << "another replica loads it";
  EXPECT_THAT(error_of({"qkv", "qkv/moment"}, {"norm"}),
              HasSubstr("\n  not in this configuration: qkv, qkv/moment"));
}

TEST_F(CheckpointTest, AMisfitDoesNotFallBack) {
  for (const i64 step : {5, 10}) save_step(one_, path(), step);
  const auto errors = on_ranks(one_, path(), [](CheckpointRank& rank) {
    rank.add("added", {2}, {}, DType::fp32);
    rank.checkpoints().load("auto", rank.tensors);
  });
  EXPECT_THAT(errors, Each(HasSubstr("step-10 does not fit this configuration:")));
}

// --- failures of single ranks: the others must neither hang nor commit ---

TEST_F(CheckpointTest, ARankThatCannotWriteFailsAllAndLeavesTheOlderOnes) {
  save_step(four_, path(), 5);
  const auto errors = on_ranks(four_, path(), [](CheckpointRank& rank) {
    rank.fill(10);
    Checkpoints checkpoints = rank.checkpoints();
    // What rank 1 is to write is in its own way.
    if (rank.mesh().rank() == 1) rank.tensors[0].tensor = Tensor();
    checkpoints.save(info_at(10), rank.tensors);
  });
  EXPECT_THAT(errors, Each(StartsWith("1: saving step 10 failed, older checkpoints are whole: ")));
  EXPECT_EQ(errors[0], errors[3]);
  EXPECT_THAT(names(), Not(::testing::Contains(StartsWith("step-10"))));
  EXPECT_THAT(load(two_, "auto"), Each("5"));
}

TEST_F(CheckpointTest, AHoleIsNotCommitted) {
  const auto errors = on_ranks(two_, path(), [](CheckpointRank& rank) {
    rank.fill(10);
    if (rank.mesh().rank() == 1) rank.tensors.erase(rank.tensors.begin() + 1);
    rank.checkpoints().save(info_at(10), rank.tensors);
  });
  EXPECT_THAT(errors, Each(HasSubstr("slices of \"qkv\" hold 36 of its 72 elements")));
  EXPECT_THAT(complete_steps(path()), IsEmpty());
}

TEST_F(CheckpointTest, HostsThatDoNotShareTheFolderAreFound) {
  const TestFolder elsewhere;
  fs::create_directory(elsewhere.at("step-10.run.tmp"));
  const auto errors = on_ranks(two_, path(), [&](CheckpointRank& rank) {
    rank.fill(10);
    if (!rank.root()) rank.arguments.folder = elsewhere.path();
    rank.checkpoints().save(info_at(10), rank.tensors);
  });
  EXPECT_THAT(errors, Each(HasSubstr(" have folders of their own there")));
  EXPECT_THAT(complete_steps(path()), IsEmpty());
}

TEST_F(CheckpointTest, WhatHasToComeBeforeTheCommitDoes) {
  run_ranks(two_, path(), [&](CheckpointRank& rank) {
    rank.fill(10);
    Checkpoints checkpoints = rank.checkpoints();
    const auto save = [&](bool fails) {
      checkpoints.save(info_at(10), rank.tensors, [&] {
        EXPECT_TRUE(rank.root());
        EXPECT_THAT(complete_steps(path()), IsEmpty());
        if (fails) fail("the disk is full");
      });
    };
    EXPECT_THAT(text_of<SharedError>([&] { save(true); }),
                AllOf(HasSubstr("saving step 10 failed"), HasSubstr("the disk is full")));
    save(false);  // again, as if nothing had been
  });
  EXPECT_THAT(complete_steps(path()), ElementsAre(step_folder(path(), 10)));
}

TEST_F(CheckpointTest, ANewRunTakesTheParametersThatItHas) {
  save_step(two_, path(), 10);
  run_ranks(world_of(1, 1), path(), [&](CheckpointRank& rank) {
    rank.tensors.erase(rank.tensors.begin() + 4,
                       rank.tensors.end());  // without "scalar" and the optimizer's state
    rank.add("new", {3}, {}, DType::fp32);
    rank.spoil();
    const auto initial = rank.checkpoints().initialize(
        path(), rank.tensors, {"vocabulary", "qkv", "projection", "norm", "new"}, {"q*"});
    EXPECT_THAT(initial.taken, ElementsAre("norm", "projection", "vocabulary"));
    EXPECT_THAT(initial.fresh, ElementsAre("new", "qkv"));
    EXPECT_THAT(initial.left_out, ElementsAre("scalar"));
    EXPECT_EQ(rank.wrong(10), " qkv new");
  });
}

TEST_F(CheckpointTest, WhatANewRunCannotTakeIsNamedAndNothingIsTouched) {
  save_step(world_of(1, 1), path(), 10);
  const auto error = [&](const std::vector<std::string>& names, const std::string& skip) {
    std::string text;
    run_ranks(world_of(1, 1), path(), [&](CheckpointRank& rank) {
      rank.tensors.erase(rank.tensors.begin() + 1, rank.tensors.end());
      rank.add("norm", {7}, {}, DType::fp32);
      rank.fill(3);
      text = text_of<Error>(
          [&] { rank.checkpoints().initialize(path(), rank.tensors, names, {skip}); });
      EXPECT_EQ(rank.wrong(3), "");
    });
    return text;
  };
  EXPECT_THAT(error({"vocabulary", "norm"}, "qkv"),
              AllOf(HasSubstr("norm: fp32 [5] in the checkpoint, fp32 [7] in this configuration"),
                    HasSubstr("checkpoint.init_skip = ")));
  EXPECT_THAT(error({"vocabulary", "norm"}, "nrom"), HasSubstr("\"nrom\" matches no parameter"));
  EXPECT_THAT(error({"vocabulary"}, "n\nm"), HasSubstr("\"n\\nm\" matches no parameter"));
  EXPECT_THAT(error({"other"}, "qkv"), HasSubstr("has no parameter that this run takes; it has "));
  EXPECT_THAT(error({"vocabulary", "norm"}, "*"),
              HasSubstr("this run takes; checkpoint.init_skip leaves out all that both have"));
}

TEST_F(CheckpointTest, APipeInTheNameOfAFileIsAnErrorAndNoWait) {
  for (const std::string file : {"step-10/index.json", "step-10/rank-00000.safetensors"}) {
    save_step(world_of(1, 1), path(), 10);
    fs::remove(folder_.at(file));
    ASSERT_EQ(mkfifo(folder_.at(file).c_str(), 0600), 0);
    EXPECT_THAT(load(world_of(1, 1), "auto")[0], HasSubstr(file + " is not a regular file"));
    fs::remove_all(folder_.at("step-10"));
  }
}

TEST_F(CheckpointTest, ARankThatIsGoneIsNamed) {
  const auto errors = on_ranks(two_, path(), [&](CheckpointRank& rank) {
    if (!rank.root()) return;
    rank.arguments.limits = std::chrono::milliseconds(100);
    rank.checkpoints().save(info_at(10), rank.tensors);
  });
  EXPECT_THAT(errors[0], HasSubstr("rank 1's claim did not come"));
}

TEST_F(CheckpointTest, ASecondRunIsRefused) {
  const auto errors = on_ranks(two_, path(), [&](CheckpointRank& rank) {
    Checkpoints first = rank.checkpoints();
    first.claim();
    CheckpointArguments arguments = rank.arguments;
    arguments.run = "other";
    Checkpoints(arguments).claim();
  });
  EXPECT_THAT(errors, Each(HasSubstr(" is in use: process ")));
}

TEST_F(CheckpointTest, FoldersThatCannotBeMadeFailAtOnce) {
  const std::string file = folder_.write("file", "");
  const auto errors =
      on_ranks(two_, file, [&](CheckpointRank& rank) { rank.checkpoints().claim(); });
  EXPECT_THAT(errors, Each(HasSubstr("cannot")));
}

}  // namespace checkpoints_test
}  // namespace tessera
