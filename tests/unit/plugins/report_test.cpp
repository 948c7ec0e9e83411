// The page of a run that the observer `report` writes.
#include <gmock/gmock.h>

#include <chrono>
#include <limits>
#include <string>
#include <thread>

#include "tessera/error.hpp"
#include "tessera/observer.hpp"
#include "tests/unit/plugins/observer_events.hpp"
#include "tests/unit/plugins/plugins_support.hpp"

namespace tessera {
namespace report_test {

using namespace observer_events;
using ::testing::HasSubstr;
using ::testing::Not;

template <class... Events>
std::string report(const TestFolder& folder,
                   const std::string& keys,
                   i64 resume,
                   const Events&... events) {
  ObserverArguments arguments{folder.path(), resume};
  const auto observer = make_plugin<Observer>("report", keys, arguments);
  (observer->on(events), ...);
  return folder.read("report.html");
}

MemoryUse memory_use() {
  MemoryUse use;
  use.step = 2;
  use.rank = 1;
  use.stats.peak[static_cast<std::size_t>(Category::activations)] = i64{3} << 20;
  use.stats.total_peak = i64{4} << 20;
  use.stats.reserved = i64{5} << 20;
  return use;
}

TEST(Report, ShowsTheRunOnOnePage) {
  const TestFolder folder;
  RunStart start = run_start();
  start.config = "[run]\nseed = 7   # --set #1\n";
  start.schedule = "<svg class=\"picture\"></svg>";
  StepEnd second = step_end(2, 1.5);
  second.metrics = {{"aux", 0.25}};
  const std::string page = report(folder,
                                  "",
                                  0,
                                  start,
                                  step_end(1, 5),
                                  second,
                                  memory_use(),
                                  Validation{2, 3.5},
                                  Saved{2, "runs/quick/step-2", 1},
                                  RunEnd{2, 1, true});
  for (const char* text : {"<!DOCTYPE html>",
                           "stopped",
                           "<td>2 of 40</td>",
                           "<td>tp 2, dp 1 on 2 ranks (shm)</td>",
                           "<td>10,795,776</td>",
                           "<td>runs/quick/step-2</td>",
                           "<td>4,096 tokens/s",
                           ">Loss</text>",
                           "training ",
                           "validation 3.5000",
                           ">Gradient norm</text>",
                           ">Learning rate</text>",
                           "now 0.0003",
                           ">Tokens per second</text>",
                           ">aux</text>",
                           "<h2>Memory of rank 1, the fullest of 2, at its peak</h2>",
                           ">activations</text>",
                           ">3.00 MiB</text>",
                           ">reserved</text>",
                           "<svg class=\"picture\"></svg>",
                           "seed = 7   # --set #1\n"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
  EXPECT_FALSE(std::filesystem::exists(folder.at("report.html.tmp")));
}

TEST(Report, RefersToNothingOutsideItself) {
  const TestFolder folder;
  const std::string page =
      report(folder, "", 0, run_start(), step_end(1, 5), memory_use(), RunEnd{1, 1, false});
  for (const char* outside : {"src=", "href=", "url(", "@import", "<script", "<link"}) {
    EXPECT_THAT(page, Not(HasSubstr(outside)));
  }
  EXPECT_EQ(count(page, "http"), count(page, "http://www.w3.org/2000/svg"));  // a name, no address
}

TEST(Report, EscapesAllThatItWasTold) {
  const TestFolder folder;
  const std::string evil = "<script>alert('&\"')</script>";
  RunStart start = run_start();
  start.name = start.out = start.layout = start.resumed_from = start.config = evil;
  StepEnd step = step_end(1, 5);
  step.metrics = {{evil, 1.0}};
  const std::string page =
      report(folder, "", 0, start, step, Saved{1, evil, 1}, Failure{evil + "\n" + evil});
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page,
              HasSubstr("<pre>&lt;script&gt;alert('&amp;&quot;')&lt;/script&gt;\n&lt;script"));
  EXPECT_THAT(page, HasSubstr("failed"));
}

TEST(Report, IsWrittenWhileTheRunGoesOnButNotAtEveryStep) {
  const TestFolder folder;
  EXPECT_THAT(report(folder, "", 0, run_start()), HasSubstr("No step is done yet"));
  // Within an hour of the first page there is none of the steps, but one of the end.
  const std::string during = report(folder, "every_s = 3600", 0, run_start(), step_end(1, 5));
  EXPECT_THAT(during, HasSubstr("running"));
  EXPECT_THAT(during, HasSubstr("http-equiv=\"refresh\""));
  EXPECT_THAT(during, HasSubstr("<td>0 of 40</td>"));
  const std::string end =
      report(folder, "every_s = 3600", 0, run_start(), step_end(1, 5), RunEnd{1, 1, false});
  EXPECT_THAT(end, HasSubstr("done"));
  EXPECT_THAT(end, HasSubstr("<td>1 of 40</td>"));
  EXPECT_THAT(end, Not(HasSubstr("http-equiv=\"refresh\"")));

  ObserverArguments arguments{folder.path(), 0};
  const auto observer = make_plugin<Observer>("report", "every_s = 0.1", arguments);
  observer->on(run_start());
  bool seen = false;
  for (i64 step = 1; step <= 100 && !seen; ++step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    observer->on(step_end(step, 5));
    seen = folder.read("report.html").find("<td>0 of 40</td>") == std::string::npos;
  }
  EXPECT_TRUE(seen);
}

TEST(Report, LongRunsStaySmall) {
  const TestFolder folder;
  ObserverArguments arguments{folder.path(), 0};
  const auto observer = make_plugin<Observer>("report", "every_s = 3600", arguments);
  observer->on(run_start());
  for (i64 step = 1; step <= 200'000; ++step) {
    observer->on(step_end(step, 10.0 / std::sqrt(static_cast<double>(step))));
  }
  observer->on(RunEnd{200'000, 1, false});
  const std::string page = folder.read("report.html");
  EXPECT_LT(page.size(), 300'000U) << "a page is drawn from means, not from every step";
  EXPECT_THAT(page, HasSubstr("200000</text>"));
}

TEST(Report, ResumeShowsTheEarlierSteps) {
  const TestFolder folder;
  StepEnd first = step_end(1, 5);
  first.metrics = {{"moe_imbalance", 1.625}};
  RunStart start = run_start();
  start.flops_per_token = 5e8;
  start.peak_flops = 4.096e12;
  metrics(folder, 0, start, first, step_end(2, 4), Validation{2, 4.5});
  start.first_step = 3;
  const std::string page = report(folder, "", 2, start, step_end(3, 3), RunEnd{3, 1, false});
  EXPECT_THAT(page, ::testing::AllOf(HasSubstr("validation 4.5000"), HasSubstr("moe_imbalance")));
  EXPECT_THAT(page, HasSubstr("<td>4,096 tokens/s, 1.02 TFLOP/s a rank, MFU 25.0 %</td>"));
  EXPECT_THAT(page, Not(HasSubstr(">mfu"))) << "the curve of tokens a second shows it";
  EXPECT_THAT(page, Not(HasSubstr(">flops_per_second")));
  EXPECT_EQ(count(page, "<circle class=\"dot\" cx=\""), 2);
}

StepEnd scaled_step(i64 step, double loss_scale, i64 skipped_steps) {
  StepEnd end = step_end(step, 5);
  end.loss_scale = loss_scale;
  end.skipped_steps = skipped_steps;
  return end;
}

// A resumed run's curves are those of the whole run.
TEST(Report, ShowsTheLossScaleAndWhatWasSkipped) {
  const TestFolder whole, parts;
  const StepEnd first = scaled_step(1, 65536, 0), second = scaled_step(2, 16384, 2);
  const StepEnd third = scaled_step(3, 16384, 2);
  const std::string page = report(whole, "", 0, run_start(), first, second, third, RunEnd{});
  for (const char* text : {">Loss scale, a power of two</text>",
                           "now 2^14</text>",
                           ">Skipped steps so far</text>",
                           "now 2</text>"}) {
    EXPECT_THAT(page, HasSubstr(text));
  }
  metrics(parts, 0, run_start(), first, second);
  const std::string resumed = report(parts, "", 2, run_start(), third, RunEnd{});
  const auto curves = [](const std::string& of) { return of.substr(of.find(">Loss scale"), 4000); };
  EXPECT_EQ(curves(resumed), curves(page));
  EXPECT_THAT(report(TestFolder(), "", 0, run_start(), step_end(1, 5), RunEnd{}),
              ::testing::Not(HasSubstr("Loss scale")));
}

TEST(Report, ANewRunKeepsThePageOfAnEarlierOne) {
  const TestFolder folder;
  folder.write("report.html", "earlier");
  report(folder, "", 0, run_start());
  EXPECT_EQ(folder.read("report.1.html"), "earlier");
}

TEST(Report, APageThatCannotBeWrittenIsAWarning) {
  const TestFolder folder;
  std::filesystem::create_directories(folder.at("report.html.tmp"));
  ObserverArguments arguments{folder.path(), 0};
  const auto observer = make_plugin<Observer>("report", "", arguments);
  ::testing::internal::CaptureStderr();
  observer->on(run_start());
  observer->on(RunEnd{});
  const std::string text = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(count(text, "report: cannot create"), 1) << text;
  EXPECT_THAT(text, HasSubstr("the run goes on"));
}

}  // namespace report_test
}  // namespace tessera
