// A checkpoint of somebody else runs none of his code and opens none of the files that it names.
#include <gmock/gmock.h>
#include <sys/stat.h>

#include <filesystem>

#include "train_support.hpp"

namespace tessera::testing {
namespace stored_code_test {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string kTheirs = TESSERA_BUILD_DIR "/tests/plugins/broken";
// The system's loader tells on standard error what it loads.
const std::map<std::string, std::string> kTold = {{"LD_DEBUG", "files"}};
constexpr const char* kLoaded = "/libtessera_test_broken.so";

class StoredCode : public ::testing::Test {
 protected:
  ProcessResult run(std::vector<std::string> words,
                    const std::map<std::string, std::string>& environment = kTold) const {
    words.insert(words.begin(), tessera_program());
    ProcessOptions options = run_.options();
    options.environment.insert(environment.begin(), environment.end());
    return run_process(words, options);
  }
  std::vector<std::vector<std::string>> readers() const {
    return {{"generate", "--checkpoint", run_.at("run"), "--prompt", "the", "--tokens", "2"},
            {"checkpoint", "reshard", run_.at("run"), run_.at("resharded")},
            {"convert", "--from", run_.at("run"), "--to", run_.at("converted")}};
  }
  const TinyRun run_;
};

TEST_F(StoredCode, FoldersOfPluginsComeFromTheUser) {
  ASSERT_EQ(run_.train(TinyRun::steps(2,
                                      "run",
                                      {broken_plugins(),
                                       "model.head.norm.type=test_broken_norm",
                                       "model.head.norm.how=no"}))
                .exit_code,
            0);
  for (const std::vector<std::string>& reader : readers()) {
    EXPECT_THAT(run(reader),
                Exits(2,
                      "test_broken_norm",
                      "index.json:",
                      "[plugins] path: nothing is loaded from " + kTheirs +
                          ", since a checkpoint may be somebody else's; where you trust it, "
                          "give the folder with --path or TESSERA_PLUGIN_PATH",
                      Not(HasSubstr(kLoaded))))
        << reader[0];
  }
  const ProcessResult by_variable = run(readers()[0], {{"TESSERA_PLUGIN_PATH", kTheirs}});
  EXPECT_EQ(by_variable.exit_code, 0) << by_variable.err;
  EXPECT_EQ(by_variable.err, "");
  std::vector<std::string> generate = readers()[0];
  generate.insert(generate.end(), {"--path", kTheirs});
  const ProcessResult by_flag = run(generate, {});
  EXPECT_EQ(by_flag.exit_code, 0) << by_flag.err;
  EXPECT_EQ(by_flag.out, by_variable.out);
  std::vector<std::string> reshard = readers()[1];
  reshard.insert(reshard.end(), {"--set", "plugins.path=[\"" + kTheirs + "\"]"});
  EXPECT_THAT(run(reshard), Exits(0, kLoaded));
  // A run of one's own goes on by the configuration that names the folder.
  EXPECT_THAT(
      run_.train(TinyRun::steps(
          3,
          "run",
          {broken_plugins(), "model.head.norm.type=test_broken_norm", "model.head.norm.how=no"})),
      Exits(0, "going on from "));
}

// An index may claim any model; what it claims costs neither the time nor the memory of one.
TEST_F(StoredCode, AModelThatIsLargerByFarThanItsTensorsIsNotBuilt) {
  ASSERT_EQ(run_.train(TinyRun::steps(2, "run")).exit_code, 0);
  const auto error_of = [&](std::vector<std::string> reader, const std::string& set) {
    reader.insert(reader.end(), {"--set", set});
    const ProcessResult result = run(reader, {});
    EXPECT_EQ(result.exit_code, 2) << reader[0];
    return result.err;
  };
  const std::vector<std::string> generate = readers()[0], reshard = readers()[1];
  for (const std::vector<std::string>& reader : {generate, reshard}) {
    EXPECT_THAT(error_of(reader, "model.layers=10000"),
                AllOf(HasSubstr("index.json:"),
                      HasSubstr(": [model] is larger by far than checkpoint " +
                                run_.at("run/checkpoints/step-2") + ": up to \"layers.85."),
                      HasSubstr("it has 1029 parameters of "),
                      HasSubstr(", and the checkpoint has 28 of ")));
    EXPECT_THAT(error_of(reader, "model.hidden=240000"),
                HasSubstr("up to \"embedding.weight\" it has 1 parameter of "));
    EXPECT_THAT(error_of(reader, "model.layers=3"),  // with all names
                HasSubstr("not in the checkpoint: layers.2.attention_norm.weight, "));
  }
}

// Where another plugin of the same name would do, the difference is told.
TEST_F(StoredCode, WhatIsLeftOutIsTold) {
  ASSERT_EQ(run_.train(TinyRun::steps(2, "run", {broken_plugins()})).exit_code, 0);
  for (const std::vector<std::string>& reader : {readers()[0], readers()[1]}) {
    EXPECT_THAT(run(reader),
                Exits(0, "nothing is loaded from " + kTheirs, Not(HasSubstr(kLoaded))));
  }
}

// Opening a pipe that nobody writes to would never end.
TEST_F(StoredCode, ReshardOpensNoData) {
  ASSERT_EQ(run_.train(TinyRun::steps(2, "run")).exit_code, 0);
  std::filesystem::remove(run_.at("text.txt"));
  ASSERT_EQ(mkfifo(run_.at("text.txt").c_str(), 0600), 0);
  Process reshard({tessera_program(), "checkpoint", "reshard", run_.at("run"), run_.at("other")},
                  run_.options());
  const ProcessResult result = reshard.wait(std::chrono::minutes(2));
  EXPECT_EQ(result.exit_code, 0) << result.err;
  const ProcessResult same = run({"checkpoint", "diff", run_.at("run"), run_.at("other")}, {});
  EXPECT_EQ(same.exit_code, 0) << same.out;
}

}  // namespace stored_code_test
}  // namespace tessera::testing
