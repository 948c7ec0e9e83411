#include <gmock/gmock.h>
#include <sys/resource.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <thread>

#include "tessera/error.hpp"
#include "tessera/observer.hpp"
#include "tests/unit/plugins/observer_events.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace observers_test {

using namespace observer_events;
using nlohmann::json;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

template <class... Events>
std::string console(const std::string& keys, const Events&... events) {
  ObserverArguments arguments;
  const auto observer = make_plugin<Observer>("console", keys, arguments);
  ::testing::internal::CaptureStdout();
  (observer->on(events), ...);
  return ::testing::internal::GetCapturedStdout();
}

TEST(Console, PrintsForPeople) {
  StepEnd skipped = step_end(40, 1.5);
  skipped.skipped = true;
  skipped.skipped_steps = 17;
  skipped.loss_scale = 65536;
  skipped.metrics = {{"aux", 0.25}};
  const auto lines = lines_of(console("every_steps = 20",
                                      run_start(),
                                      step_end(1, 5.25),
                                      step_end(2, 5.0),
                                      step_end(20, 2.12341),
                                      Validation{20, 2.5},
                                      Saved{20, "runs/quick/step-20", 1.23},
                                      skipped,
                                      RunEnd{40, 80.4, false}));
  EXPECT_THAT(
      lines,
      ElementsAre("quick \"start\"",
                  "  layout      tp 2, dp 1 on 2 ranks (shm)",
                  "  device      cpu, 2 threads: avx2",
                  "  parameters  10.8 M (10,795,776)",
                  "  steps       1 to 40, 2,048 tokens each",
                  "  folder      runs/quick",
                  "step  1/40  loss 5.2500  norm 0.71  lr 3.0e-4  4,096 tok/s  eta 20s",
                  "step 20/40  loss 3.5617  norm 0.71  lr 3.0e-4  4,096 tok/s  eta 10s",
                  "step 20/40  validation loss 2.5000",
                  "step 20/40  saved runs/quick/step-20 in 1.2s",
                  "step 40/40  loss 1.5000  norm 0.71  lr 3.0e-4  4,096 tok/s  aux 0.25  scale "
                  "6.6e4  skipped steps 17  skipped: its gradients overflowed, or its loss is bad",
                  "done after step 40 in 1m 20s"));
}

TEST(Console, AStepThatWasPassedOverHasNoLoss) {
  StepEnd over;
  over.step = 40;
  over.skipped = over.passed_over = true;
  over.skipped_steps = 2;
  EXPECT_THAT(console("", run_start(), step_end(20, 2), over),
              HasSubstr("\nstep 40/40  passed over: it was bad before  skipped steps 2\n"));
  RunStart json = run_start();
  json.json = true;
  EXPECT_THAT(console("", json, over),
              HasSubstr("{\"event\":\"step\",\"step\":40,\"skipped\":true,\"skipped_steps\":2}\n"));
}

TEST(Console, ProgramsAreToldTheMemory) {
  MemoryUse use;
  use.step = 4;
  use.rank = 1;
  use.stats.peak = {7, 6, 5, 4, 3, 2, 1};
  use.stats.total_peak = 28;
  use.stats.reserved = 64;
  use.stats.host_blocks = 9;
  use.stats.system_calls = 12;
  RunStart start = run_start();
  EXPECT_EQ(console("", start, use), console("", start));
  start.json = true;
  EXPECT_THAT(console("", start, use),
              HasSubstr("{\"event\":\"memory\",\"step\":4,\"rank\":1,\"peak_bytes\":28,"
                        "\"reserved_bytes\":64,\"host_block_bytes\":9,\"system_calls\":12,"
                        "\"peaks\":{\"parameters\":7,\"gradients\":6,\"optimizer\":5,"
                        "\"activations\":4,\"communication\":3,\"graph\":2,\"workspace\":1}}\n"));
}

TEST(Console, SpeedIsThatOfTheStepsSinceTheLastLine) {
  StepEnd slow = step_end(2, 5), fast = step_end(3, 5);
  slow.seconds = 3;
  fast.seconds = 1;
  RunStart start = run_start();
  start.last_step = 3;
  EXPECT_THAT(console("", start, step_end(1, 5), slow, fast), HasSubstr("1,024 tok/s"));
}

// Two ranks; 4,096 tokens a second of half a gigaFLOP each.
TEST(Console, TellsWhatTheSpeedIsWorth) {
  RunStart start = run_start();
  start.flops_per_token = 5e8;
  const std::string unknown = console("", start, step_end(1, 5));
  EXPECT_THAT(unknown, HasSubstr("  4,096 tok/s  1.02 TFLOP/s a rank  eta "));
  EXPECT_THAT(unknown, Not(HasSubstr("MFU")));
  start.peak_flops = 4.096e12;
  EXPECT_THAT(console("", start, step_end(1, 5)),
              HasSubstr("  4,096 tok/s  1.02 TFLOP/s a rank, MFU 25.0 %  eta "));
  start.world = 1;
  start.flops_per_token = 5e4;
  EXPECT_THAT(console("", start, step_end(1, 5)), HasSubstr("  205 MFLOP/s, MFU 0.0 %  eta "));
  start.flops_per_token = 0.1;
  EXPECT_THAT(console("", start, step_end(1, 5)), HasSubstr("  410 FLOP/s, MFU "));
  start.json = true;
  EXPECT_THAT(console("", start, step_end(1, 5)),
              AllOf(HasSubstr("\"peak_flops\":4096000000000.0"), HasSubstr("\"mfu\":1e-10}")));
  start.peak_flops = 0;
  EXPECT_THAT(console("", start, step_end(1, 5)),
              AllOf(HasSubstr("\"flops_per_second\":409.6"), Not(HasSubstr("\"mfu\""))));
}

TEST(Console, LossIsTheMeanSinceTheLastLine) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  StepEnd bad = step_end(3, nan), worse = step_end(4, nan);
  bad.skipped = worse.skipped = true;
  const auto last = [](const auto&... steps) {
    return lines_of(console("every_steps = 4", run_start(), step_end(1, 9), steps...)).back();
  };
  EXPECT_THAT(last(step_end(2, 5), step_end(3, 6), step_end(4, 1)), HasSubstr("loss 4.0000  "));
  EXPECT_THAT(last(step_end(2, 5), bad, step_end(4, 1)), HasSubstr("loss 3.0000  "));
  EXPECT_THAT(last(bad, worse), HasSubstr("loss nan  "));
  EXPECT_THAT(last(step_end(3, nan), step_end(4, 1)),
              HasSubstr("loss nan  "));  // nobody left it out
}

TEST(Console, NoNumberHasNoSign) {
  const double nan = -std::numeric_limits<double>::quiet_NaN();
  EXPECT_THAT(console("", run_start(), step_end(1, nan)), HasSubstr("  loss nan  "));
}

TEST(Console, LeavesErrorsToTheProgram) {
  EXPECT_EQ(console("", Failure{"rank 1 died"}), "");
  EXPECT_THAT(console("", RunEnd{7, 3, true}), HasSubstr("stopped after step 7"));
}

TEST(Console, PrintsJsonForPrograms) {
  RunStart start = run_start();
  start.json = true;
  StepEnd broken = step_end(2, std::numeric_limits<double>::infinity());
  broken.skipped = true;
  broken.skipped_steps = 1;
  broken.loss_scale = 512;
  const auto lines = lines_of(console("",
                                      start,
                                      step_end(1, 0.1),
                                      broken,
                                      Validation{2, 2.5},
                                      Saved{2, "a\\b\n", 1},
                                      Failure{"no"},
                                      RunEnd{2, 1, true}));
  std::vector<json> objects;
  for (const std::string& line : lines) objects.push_back(json::parse(line));
  ASSERT_EQ(objects.size(), 7U);
  std::vector<std::string> events;
  for (const json& object : objects) events.push_back(object["event"]);
  EXPECT_THAT(events,
              ElementsAre("start", "step", "step", "validation", "saved", "failure", "end"));
  EXPECT_EQ(objects[0]["name"], "quick \"start\"");
  EXPECT_EQ(objects[0]["device"], "cpu, 2 threads: avx2");
  EXPECT_EQ(objects[1]["loss"], 0.1);
  EXPECT_FALSE(objects[1].contains("skipped"));
  EXPECT_TRUE(objects[2]["loss"].is_null());
  EXPECT_EQ(objects[2]["skipped"], true);
  EXPECT_EQ(objects[2]["skipped_steps"], 1);
  EXPECT_EQ(objects[2]["loss_scale"], 512);
  EXPECT_EQ(objects[4]["path"], "a\\b\n");
  EXPECT_EQ(objects[6]["interrupted"], true);
}

std::vector<json> metrics_of(const TestFolder& folder) {
  std::vector<json> out;
  for (const std::string& line : lines_of(folder.read("metrics.jsonl"))) {
    out.push_back(json::parse(line));
  }
  return out;
}

TEST(MetricsFile, HasOneObjectAStep) {
  const TestFolder folder;
  StepEnd second = step_end(2, 1.0 / 3);
  second.skipped = true;
  second.skipped_steps = 1;
  second.loss_scale = 512;
  second.metrics = {{"aux", 0.1}};
  second.by_layer = {{"aux", {0.25, 0.5}}};
  metrics(folder, 0, run_start(), step_end(1, 5), second, Validation{2, 0.7}, RunEnd{2, 1, false});
  const auto objects = metrics_of(folder);
  ASSERT_EQ(objects.size(), 2U);
  EXPECT_EQ(objects[0],
            json::parse(R"({"step":1,"loss":5.0,"grad_norm":0.714,"lr":0.0003,)"
                        R"("tokens_per_second":4096.0,"seconds":0.5})"));
  EXPECT_EQ(objects[1]["loss"].get<double>(), 1.0 / 3);  // every bit
  EXPECT_EQ(objects[1]["val_loss"], 0.7);
  EXPECT_EQ(objects[1]["skipped"], true);
  EXPECT_EQ(objects[1]["skipped_steps"], 1);
  EXPECT_EQ(objects[1]["loss_scale"], 512);
  EXPECT_EQ(objects[1]["aux"], 0.1);
  EXPECT_EQ(objects[1]["aux_by_layer"], json::parse("[0.25,0.5]"));
}

TEST(MetricsFile, TellsWhatTheSpeedIsWorth) {
  const TestFolder folder;
  RunStart start = run_start();
  start.flops_per_token = 1000;
  start.peak_flops = 8192e3;
  metrics(folder, 0, start, step_end(1, 5), RunEnd{1, 1, false});
  const auto objects = metrics_of(folder);
  ASSERT_EQ(objects.size(), 1U);
  EXPECT_EQ(objects[0]["flops_per_second"], 2048e3);
  EXPECT_EQ(objects[0]["mfu"], 0.25);
}

TEST(MetricsFile, HasAStepBeforeItsCheckpointIsCommitted) {
  const TestFolder folder;
  ObserverArguments arguments{folder.path(), 0};
  const auto observer = make_plugin<Observer>("metrics", "", arguments);
  observer->on(run_start());
  observer->on(step_end(1, 5));
  EXPECT_EQ(folder.read("metrics.jsonl"), "");  // its validation may still come
  observer->on(Saving{1});
  EXPECT_EQ(metrics_of(folder).size(), 1U);
  observer->on(Validation{1, 4});
  observer->on(step_end(2, 3));
  observer->on(Failure{"x"});
  const auto objects = metrics_of(folder);
  ASSERT_EQ(objects.size(), 2U);
  EXPECT_EQ(objects[0]["val_loss"], 4.0);
  EXPECT_EQ(objects[1]["step"], 2);
}

TEST(MetricsFile, WritesTheLastStepWhenTheRunUnwinds) {
  const TestFolder folder;
  metrics(folder, 0, run_start(), step_end(1, 5));
  EXPECT_EQ(metrics_of(folder).size(), 1U);
}

TEST(MetricsFile, KeepsAValidationBeforeTheFirstStep) {
  const TestFolder folder;
  metrics(folder, 0, run_start(), Validation{0, 6}, step_end(1, 5));
  const auto objects = metrics_of(folder);
  ASSERT_EQ(objects.size(), 2U);
  EXPECT_EQ(objects[0], json::parse(R"({"step":0,"val_loss":6.0})"));
}

TEST(MetricsFile, ResumeCutsBackToTheStep) {
  const TestFolder folder;
  metrics(folder, 0, run_start(), step_end(1, 5), step_end(2, 4), step_end(3, 3), step_end(4, 2));
  const std::string before = folder.read("metrics.jsonl");
  metrics(folder, 2, run_start(), step_end(3, 3));
  EXPECT_EQ(folder.read("metrics.jsonl"), before.substr(0, before.find("{\"step\":4")));
}

TEST(MetricsFile, ResumeDropsAHalfWrittenLine) {
  const TestFolder folder;
  metrics(folder, 0, run_start(), step_end(1, 5), step_end(2, 4));
  const std::string whole = folder.read("metrics.jsonl");
  for (const std::string& half :
       {whole.substr(0, whole.size() - 20), whole.substr(0, whole.find("{\"step\":2") + 3)}) {
    folder.write("metrics.jsonl", half);
    metrics(folder, 9, run_start(), step_end(2, 4));
    EXPECT_EQ(folder.read("metrics.jsonl"), whole) << half;
  }
}

TEST(MetricsFile, ResumeKeepsGoodLinesAfterADamagedOne) {
  const TestFolder folder;
  metrics(folder, 0, run_start(), step_end(1, 5), step_end(2, 4), step_end(3, 3), step_end(4, 2));
  std::string text = folder.read("metrics.jsonl");
  text.replace(text.find("{\"step\":2"), 8, std::string(8, '\0'));
  folder.write("metrics.jsonl", text);
  ::testing::internal::CaptureStderr();
  metrics(folder, 3, run_start(), step_end(4, 2));
  EXPECT_THAT(::testing::internal::GetCapturedStderr(),
              HasSubstr("metrics.jsonl: 1 damaged line(s), the first is line 2; they stay"));
  EXPECT_EQ(folder.read("metrics.jsonl"), text);
}

TEST(MetricsFile, ANewRunKeepsTheFileOfAnEarlierOne) {
  const TestFolder folder;
  folder.write("metrics.jsonl", "{\"step\":0}\n");
  metrics(folder, 0, run_start(), step_end(1, 5));
  metrics(folder, 0, run_start(), step_end(1, 4));
  EXPECT_EQ(folder.read("metrics.1.jsonl"), "{\"step\":0}\n");
  EXPECT_EQ(json::parse(folder.read("metrics.2.jsonl"))["loss"], 5.0);
  EXPECT_EQ(metrics_of(folder).size(), 1U);
}

// A limit on the size of files acts as a disk that is full for a while.
[[noreturn]] void write_to_a_full_disk(const TestFolder& folder) {
  std::signal(SIGXFSZ, SIG_IGN);
  ObserverArguments arguments{folder.path(), 0};
  const auto observer = make_plugin<Observer>("metrics", "", arguments);
  observer->on(run_start());
  for (i64 step = 1; step <= 3; ++step) observer->on(step_end(step, 5));
  rlimit limit{200, RLIM_INFINITY};  // within the second line
  setrlimit(RLIMIT_FSIZE, &limit);
  for (i64 step = 4; step <= 6; ++step) observer->on(step_end(step, 5));
  const bool failed = !text_of<Error>([&] { observer->on(Saving{6}); }).empty();
  limit.rlim_cur = RLIM_INFINITY;
  setrlimit(RLIMIT_FSIZE, &limit);
  observer->on(Saving{6});
  std::_Exit(failed && metrics_of(folder).size() == 6 ? 0 : 1);
}

TEST(MetricsFileDeathTest, LinesThatTheDiskDoesNotTakeAreWrittenLater) {
  const TestFolder folder;
  EXPECT_EXIT(write_to_a_full_disk(folder),
              ::testing::ExitedWithCode(0),
              "File too large; lines wait in memory");
}

TEST(MetricsFile, SaysWhereItCannotWrite) {
  const TestFolder folder;
  folder.write("file", "");
  ObserverArguments arguments{folder.at("file/out"), 0};
  const auto start = [&] { make_plugin<Observer>("metrics", "", arguments)->on(run_start()); };
  EXPECT_THAT(text_of<Error>(start), HasSubstr("file/out"));
  std::filesystem::create_symlink("/dev/null", folder.at("metrics.jsonl"));
  arguments = {folder.path(), 3};
  EXPECT_THAT(text_of<Error>(start), HasSubstr("is a symbolic link, which is not followed"));
}

template <class... Events>
void plot(const TestFolder& folder, const std::string& keys, i64 resume, const Events&... events) {
  ObserverArguments arguments{folder.path(), resume};
  const auto observer = make_plugin<Observer>("plot", keys, arguments);
  (observer->on(events), ...);
}

// Whoever may write into the folder could have put it there.
TEST(Observers, NoLinkIsWrittenThrough) {
  const TestFolder folder;
  const std::string precious = folder.write("precious", "words");
  for (const char* name : {"metrics.jsonl", "trace.json", "loss.svg.tmp", "report.html.tmp"}) {
    std::filesystem::create_symlink("precious", folder.at(name));
  }
  const std::string refused = "is a symbolic link, which is not followed";
  ObserverArguments arguments{folder.path(), 3};
  EXPECT_THAT(
      text_of<Error>([&] { make_plugin<Observer>("metrics", "", arguments)->on(run_start()); }),
      HasSubstr(refused));
  arguments = {folder.path(), 0};
  ::testing::internal::CaptureStderr();
  const auto trace = make_plugin<Observer>("trace", "steps = [1, 2]", arguments);
  std::filesystem::remove(folder.at("precious"));  // one with a file is set aside
  EXPECT_THAT(text_of<Error>([&] { trace->on(Recorded{1, 2, "{}"}); }), HasSubstr(refused));
  folder.write("precious", "words");
  plot(folder, "", 0, run_start(), step_end(1, 5), RunEnd{});
  make_plugin<Observer>("report", "", arguments)->on(run_start());
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("loss.svg.tmp: it " + refused));
  EXPECT_EQ(folder.read("precious"), "words");
}

TEST(Plot, DrawsBothCurves) {
  const TestFolder folder;
  RunStart start = run_start();
  start.name = "a < b & c";
  plot(folder,
       "",
       0,
       start,
       step_end(1, 5),
       step_end(2, std::nan("")),
       step_end(3, 3.25),
       Validation{3, 3.5});
  const std::string svg = folder.read("loss.svg");
  EXPECT_THAT(svg, HasSubstr("<svg xmlns"));
  EXPECT_THAT(svg, HasSubstr("a &lt; b &amp; c"));
  EXPECT_THAT(svg, HasSubstr("class=\"curve train\""));
  EXPECT_THAT(svg, HasSubstr("training 3.2500"));
  EXPECT_THAT(svg, HasSubstr("validation 3.5000"));
  EXPECT_THAT(svg, Not(HasSubstr("nan")));
  EXPECT_EQ(count(svg, "<circle class=\"dot\" cx=\""), 2);  // one in the legend
  EXPECT_FALSE(std::filesystem::exists(folder.at("loss.svg.tmp")));
}

TEST(Plot, AConstantHasAnAxisAroundIt) {
  for (const auto& [value, text] : {std::pair{0.0, ">1<"}, {-5.0, ">-5.2<"}, {300.0, ">310<"}}) {
    const TestFolder folder;
    plot(folder, "", 0, run_start(), step_end(1, value), step_end(2, value), RunEnd{});
    EXPECT_THAT(folder.read("loss.svg"), AllOf(HasSubstr(text), Not(HasSubstr("e-09"))));
  }
}

TEST(Plot, DrawsEverySoManySteps) {
  const TestFolder folder;
  plot(folder, "every_steps = 2", 0, run_start(), step_end(1, 5));
  EXPECT_FALSE(std::filesystem::exists(folder.at("loss.svg")));
  plot(folder, "every_steps = 2", 0, run_start(), step_end(1, 5), step_end(2, 5));
  EXPECT_TRUE(std::filesystem::exists(folder.at("loss.svg")));
}

// A full disk costs the picture and not the run.
TEST(Plot, APictureThatCannotBeWrittenIsAWarning) {
  const TestFolder folder;
  std::filesystem::create_directories(folder.at("loss.svg.tmp/in the way"));
  ObserverArguments arguments{folder.path(), 0};
  const auto observer = make_plugin<Observer>("plot", "every_steps = 1", arguments);
  ::testing::internal::CaptureStderr();
  observer->on(run_start());
  observer->on(step_end(1, 5));
  observer->on(step_end(2, 5));
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_THAT(log, HasSubstr("plot: cannot create " + folder.at("loss.svg.tmp: ")));
  EXPECT_EQ(lines_of(log).size(), 1U) << log;
  std::filesystem::remove_all(folder.at("loss.svg.tmp"));
  observer->on(step_end(3, 5));
  EXPECT_TRUE(std::filesystem::exists(folder.at("loss.svg")));
}

TEST(Plot, DrawsARunWithoutSteps) {
  const TestFolder folder;
  plot(folder, "", 0, run_start(), RunEnd{});
  EXPECT_THAT(folder.read("loss.svg"), HasSubstr("</svg>"));
  plot(folder, "", 0, run_start(), step_end(1, 2), RunEnd{});
  EXPECT_THAT(folder.read("loss.svg"), Not(HasSubstr("nan")));
}

TEST(Plot, ANewRunKeepsThePictureOfAnEarlierOne) {
  const TestFolder folder;
  folder.write("loss.svg", "earlier");
  plot(folder, "", 0, run_start(), RunEnd{});
  EXPECT_EQ(folder.read("loss.1.svg"), "earlier");
}

TEST(Plot, LongRunsStaySmall) {
  const TestFolder folder;
  ObserverArguments arguments{folder.path(), 0};
  const auto observer = make_plugin<Observer>("plot", "every_steps = 1000000", arguments);
  observer->on(run_start());
  for (i64 step = 1; step <= 50000; ++step) {
    observer->on(step_end(step, step == 25000 ? 2 : 10.0 / std::sqrt(static_cast<double>(step))));
  }
  observer->on(RunEnd{});
  EXPECT_LT(folder.read("loss.svg").size(), 80000U);
}

TEST(Plot, ResumeReadsTheEarlierSteps) {
  const TestFolder whole, parts;
  const auto first = {step_end(1, 5), step_end(2, 4)};
  ObserverArguments arguments{whole.path(), 0};
  const auto one = make_plugin<Observer>("plot", "", arguments);
  one->on(run_start());
  for (const StepEnd& step : first) one->on(step);
  one->on(Validation{2, 4.5});
  one->on(step_end(3, 3));
  one->on(RunEnd{});

  metrics(
      parts, 0, run_start(), step_end(1, 5), step_end(2, 4), Validation{2, 4.5}, step_end(3, 9));
  plot(parts, "", 2, run_start(), step_end(3, 3), RunEnd{});
  EXPECT_EQ(parts.read("loss.svg"), whole.read("loss.svg"));
}

}  // namespace observers_test
}  // namespace tessera
