// A text that changes while it is trained on.
#include <gmock/gmock.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "train_support.hpp"

namespace tessera::testing {
namespace data_files_test {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// The mapped text is what the file holds now, so losses would be those of another text.
TEST(DataFiles, WrittenToEndTheRunBeforeItIsSaved) {
  const TinyRun dir;
  for (const bool asynchronous : {false, true}) {
    const std::string out = asynchronous ? "b" : "a";
    Process run(dir.command(TinyRun::steps(
                    1000000,
                    out,
                    {"parallel.data=2",
                     "checkpoint.every_steps=20",
                     std::string("checkpoint.asynchronous=") + (asynchronous ? "true" : "false")})),
                dir.options());
    ASSERT_TRUE(run.shows("/step-20 in ")) << run.err();
    std::fstream file(dir.at("text.txt"), std::ios::in | std::ios::out | std::ios::binary);
    file << "THE KING";
    file.close();
    const ProcessResult result = run.wait();
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_EQ(result.last_error(),
              "the file " + dir.at("text.txt") +
                  " changed while it was trained on: it was written to. Put it back as it was and "
                  "start again, which goes on from the newest checkpoint; a run on other data "
                  "needs another run.out");
    EXPECT_THAT(dir.checkpoints(out), Contains("step-20"));
    EXPECT_THAT(dir.survivors(), IsEmpty());
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(DataFiles, CutShortAreNamedAndNoPlugin) {
  const TinyRun dir;
  const std::string text = "the file " + dir.at("text.txt") +
                           " changed while it was trained on: what was read is no longer in it";
  for (const int ranks : {1, 2}) {
    const std::string out = "run" + std::to_string(ranks);
    Process run(
        dir.command(TinyRun::steps(1000000, out, {"parallel.data=" + std::to_string(ranks)})),
        dir.options());
    ASSERT_TRUE(run.shows(" 20/1000000")) << run.err();
    const std::string before = dir.folder.read("text.txt");
    fs::resize_file(dir.at("text.txt"), 0);
    const ProcessResult result = run.wait();
    if (ranks == 1) {
      EXPECT_EQ(result.signal, SIGBUS);
    } else {
      EXPECT_EQ(result.exit_code, 1);
    }
    EXPECT_THAT(result.last_error(),
                AllOf(HasSubstr("crashed by SIGBUS (Bus error): " + text),
                      Not(HasSubstr("dataset")),
                      Not(HasSubstr("plugin"))));
    dir.folder.write("text.txt", before);
  }
}
#endif

}  // namespace data_files_test
}  // namespace tessera::testing
