#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>
#include <initializer_list>
#include <sstream>
#include <string>
#include <vector>

#include "tessera/error.hpp"
#include "tessera/observer.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace metrics_file_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string lines(std::initializer_list<i64> steps) {
  std::string text;
  for (const i64 step : steps) text += fmt::format("{{\"step\":{},\"loss\":5.0}}\n", step);
  return text;
}

/// A run goes on after a step of one that left `text`, and writes nothing: what is in the file
/// then, and what the run says.
class MetricsFileResumed : public ::testing::Test {
 protected:
  std::string resume(const std::string& text, i64 step, bool changed = false) {
    folder_.write("metrics.jsonl", text);
    ObserverArguments arguments{folder_.path(), step, changed};
    ::testing::internal::CaptureStderr();
    {
      const auto observer = make_plugin<Observer>("metrics", "", arguments);
      observer->on(RunStart());
    }
    said_ = ::testing::internal::GetCapturedStderr();
    return folder_.read("metrics.jsonl");
  }
  bool set_aside() const { return std::filesystem::exists(folder_.at("metrics.1.jsonl")); }

  TestFolder folder_;
  std::string said_;
};

TEST_F(MetricsFileResumed, LaterStepsOfAnotherConfigurationAreKeptApart) {
  const std::string text = lines({1, 2, 3, 4});
  EXPECT_EQ(resume(text, 4, true), text);
  EXPECT_FALSE(set_aside());
  EXPECT_EQ(resume(text, 2, true), lines({1, 2}));
  EXPECT_EQ(folder_.read("metrics.1.jsonl"), text);
}

TEST_F(MetricsFileResumed, OnlyLaterStepsGoInSilence) {
  EXPECT_EQ(resume(lines({1, 2, 3, 4}), 2), lines({1, 2}));
  EXPECT_EQ(said_, "");
  EXPECT_FALSE(set_aside());
}

TEST_F(MetricsFileResumed, ALaterStepAmongEarlierOnesDoesNotEndTheFile) {
  const std::string text = lines({1, 2, 93, 4, 5, 6, 7});
  EXPECT_EQ(resume(text, 6), lines({1, 2, 4, 5, 6}));
  EXPECT_EQ(folder_.read("metrics.1.jsonl"), text);
  EXPECT_THAT(said_,
              AllOf(HasSubstr("left out are 1 line(s) of steps beyond 6 among earlier ones"),
                    HasSubstr("it is kept as metrics.1.jsonl")));
}

TEST_F(MetricsFileResumed, AnEarlierStepAmongLaterOnesDoesNotKeepThem) {
  const std::string text = lines({1, 2, 3, 4, 1, 6});
  EXPECT_EQ(resume(text, 2), lines({1, 2, 1}));
  EXPECT_EQ(folder_.read("metrics.1.jsonl"), text);
}

TEST_F(MetricsFileResumed, DamagedLinesAtTheEndAreKeptBeside) {
  const std::string text = lines({1}) + "{\"step\":2x,\"loss\":5.0}\n" + lines({3});
  EXPECT_EQ(resume(text, 2), lines({1}));
  EXPECT_EQ(folder_.read("metrics.1.jsonl"), text);
  EXPECT_THAT(said_, HasSubstr("and 1 damaged line(s) at the end"));
}

TEST_F(MetricsFileResumed, DamagedLinesStayInAFileThatIsCopied) {
  const std::string damaged = "what is this\n";
  EXPECT_EQ(resume(lines({1}) + damaged + lines({9, 2, 3}), 2), lines({1}) + damaged + lines({2}));
  EXPECT_THAT(said_, HasSubstr("1 damaged line(s), the first is line 2; they stay"));
  EXPECT_TRUE(set_aside());
}

TEST_F(MetricsFileResumed, LinesMayEndAsAnEditorOfWindowsEndsThem) {
  const std::string two = "{\"step\":1,\"loss\":5.0}\r\n{\"step\":2,\"loss\":5.0}\r\n";
  EXPECT_EQ(resume(two + "{\"step\":3,\"loss\":5.0}\r\n", 2), two);
  EXPECT_EQ(said_, "");
}

TEST_F(MetricsFileResumed, AWholeLastLineNeedsNoNewline) {
  const std::string whole = lines({1, 2});
  EXPECT_EQ(resume(whole.substr(0, whole.size() - 1), 2), whole);
  EXPECT_EQ(said_, "");
  EXPECT_EQ(resume(lines({9}) + whole.substr(0, whole.size() - 1), 2), whole);
  EXPECT_TRUE(set_aside());
}

TEST_F(MetricsFileResumed, AHalfWrittenLineIsLeftOutWithAWord) {
  EXPECT_EQ(resume(lines({1}) + "{\"step\":2,\"lo", 2), lines({1}));
  EXPECT_THAT(said_, HasSubstr("the last line, half-written, is left out"));
  EXPECT_FALSE(set_aside());
}

// What a user does to the file while the run goes on: later lines are kept, and the gap is told.
TEST(MetricsFileRemoved, IsMadeAgainOrGoesOnWhereAnotherStands) {
  const TestFolder folder;
  const std::string name = "out/metrics.jsonl", file = folder.at(name);
  ObserverArguments arguments{folder.at("out"), 0};
  const auto observer = make_plugin<Observer>("metrics", "", arguments);
  observer->on(RunStart());
  i64 step = 0;
  const auto next = [&](const std::string& told) {
    ::testing::internal::CaptureStderr();
    StepEnd event;
    event.step = ++step;
    observer->on(event);
    observer->on(Saving{step});
    EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr(told)) << step;
  };
  const auto steps = [&] {
    std::vector<i64> found;
    std::istringstream in(folder.read(name));
    for (std::string line; std::getline(in, line);) {
      EXPECT_THAT(line, AllOf(::testing::StartsWith("{\"step\":"), ::testing::EndsWith("}")));
      found.push_back(std::stol(line.substr(8)));
    }
    return found;
  };
  next("");
  std::filesystem::remove(file);
  next(name + "\" was removed or emptied while the run goes on: lines go into a new one");
  EXPECT_THAT(steps(), ElementsAre(2));
  std::filesystem::remove_all(folder.at("out"));
  next("was removed or emptied");
  EXPECT_THAT(steps(), ElementsAre(3));
  observer->on(Validation{step, 4});  // the line that is there gets it
  EXPECT_THAT(steps(), ElementsAre(3));
  EXPECT_THAT(folder.read(name), HasSubstr("\"val_loss\":4"));
  std::filesystem::remove(file);
  observer->on(Validation{step, 4});
  EXPECT_THAT(steps(), ElementsAre(3)) << "the line is gone, so it is written again";
  std::filesystem::resize_file(file, 0);  // in place, as a shell's `: >` does
  next("was removed or emptied");
  EXPECT_THAT(steps(), ElementsAre(4));
  // As `sed -i` and editors do: another file of that name, perhaps without its last newline.
  folder.write("out/other", "{\"step\":1}");
  std::filesystem::rename(folder.at("out/other"), file);
  next("was replaced or cut short while the run goes on: lines go on at its end");
  next("");
  EXPECT_THAT(steps(), ElementsAre(1, 5, 6));
}

// Each would wait without end for somebody who reads the pipe, or writes to it.
TEST(RunFolder, APipeInTheNameOfAFileIsAnErrorAndNoWait) {
  const TestFolder folder;
  for (const std::string name : {"trace.json", "loss.svg.tmp", "metrics.jsonl"}) {
    ASSERT_EQ(::mkfifo(folder.at(name).c_str(), 0600), 0);
  }
  ObserverArguments arguments{folder.path(), 0};
  const auto trace = make_plugin<Observer>("trace", "steps = [1, 2]", arguments);
  EXPECT_THAT(text_of<Error>([&] { trace->on(Recorded{}); }), HasSubstr("trace.json\" is a pipe"));
  const auto plot = make_plugin<Observer>("plot", "", arguments);
  ::testing::internal::CaptureStderr();
  plot->on(Validation{1, 2.0});  // the run goes on without its picture
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("loss.svg.tmp\" is a pipe"));
  arguments.resume_step = 1;
  const auto resumed = make_plugin<Observer>("plot", "", arguments);
  EXPECT_THAT(text_of<Error>([&] { resumed->on(RunStart()); }),
              HasSubstr("metrics.jsonl\" is a pipe"));
}

}  // namespace metrics_file_test
}  // namespace tessera
