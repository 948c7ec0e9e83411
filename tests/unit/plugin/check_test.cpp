#include "kernel/plugin/check.hpp"

#include <gmock/gmock.h>

#include <cerrno>
#include <csignal>
#include <string>

#include "plugin_support.hpp"
#include "tests/common/environment.hpp"

namespace tessera {
namespace check_test {

using ::testing::HasSubstr;
using testing::plugin_file;
using ::testing::StartsWith;
using namespace std::chrono_literals;

const std::string kProgram = TESSERA_BUILD_DIR "/bin/tessera";

PluginCheck check(const std::string& name, std::chrono::milliseconds timeout = 60s) {
  return check_plugin(kProgram, plugin_file(name), timeout);
}

std::string at(const std::string& name) { return "plugin error: " + plugin_file(name).string(); }

TEST(PluginCheck, ShowsWhatASoundPluginBrings) {
  const PluginCheck found = check("good");
  EXPECT_EQ(found.outcome, PluginCheck::good) << found.text;
  EXPECT_THAT(found.text,
              StartsWith(plugin_file("good").string() +
                         ": plugin test_good 1.2.3, What a sound plugin looks like\n"
                         "  fits SDK ABI "));
  EXPECT_THAT(found.text, HasSubstr("\n  tokenizer/test_letters: One id a letter.\n"));
  EXPECT_THAT(found.text, HasSubstr("\n  kernel test_double on fast"));
}

// A sanitizer turns a crash into its own report and an exit code.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
TEST(PluginCheck, ACrashIsReportedWithItsSignal) {
  const PluginCheck loading = check("crash_on_load");
  EXPECT_EQ(loading.outcome, PluginCheck::crashed);
  EXPECT_EQ(loading.text,
            at("crash_on_load") +
                ": crashed in loading (its static constructors): SIGSEGV, Segmentation fault");
  const PluginCheck registering = check("crashes");
  EXPECT_EQ(registering.outcome, PluginCheck::crashed);
  EXPECT_EQ(registering.text, at("crashes") + ": crashed in the registration: SIGABRT, Aborted");
}
#endif

TEST(PluginCheck, OneThatNeverReturnsIsStopped) {
  const PluginCheck found = check("hangs", 5s);
  EXPECT_EQ(found.outcome, PluginCheck::hung);
  EXPECT_EQ(found.text, at("hangs") + ": did not finish the registration within 5 s");
}

// Its constructors never return, or end the process as if all were well.
TEST(PluginCheck, StaticConstructorsAreBoundedAndMayNotEndTheProcess) {
  const PluginCheck hangs = check("load_hangs", 5s);
  EXPECT_EQ(hangs.outcome, PluginCheck::hung);
  EXPECT_EQ(hangs.text,
            at("load_hangs") + ": did not finish loading (its static constructors) within 5 s");
  for (const char* how : {"load_exits", "load_quits"}) {
    const PluginCheck ends = check(how);
    EXPECT_EQ(ends.outcome, PluginCheck::bad);
    EXPECT_EQ(
        ends.text,
        at(how) + ": the process ended in loading (its static constructors) with exit code 0");
  }
}

// It holds the pipe to the parent open, and has left its parent's group and session.
TEST(PluginCheck, AProcessThatALibraryLeavesBehindIsEnded) {
  const testing::TestFolder folder;
  const testing::EnvironmentVariable left("TESSERA_TEST_LEFT", folder.at("left"));
  const PluginCheck found = check("load_leaves_a_process");
  EXPECT_EQ(found.outcome, PluginCheck::good) << found.text;
  const pid_t pid = std::stoi(folder.read("left"));
  EXPECT_EQ(kill(pid, 0), -1) << "process " << pid << " lives on";
  EXPECT_EQ(errno, ESRCH);
}

TEST(PluginCheck, OneThatEndsTheProcess) {
  const PluginCheck found = check("exits");
  EXPECT_EQ(found.outcome, PluginCheck::bad);
  EXPECT_EQ(found.text, at("exits") + ": the process ended in the registration with exit code 3");
}

TEST(PluginCheck, Errors) {
  const auto text = [](const std::string& name) {
    const PluginCheck found = check(name);
    EXPECT_EQ(found.outcome, PluginCheck::bad);
    return found.text;
  };
  EXPECT_THAT(text("wrong_stamp"),
              StartsWith(at("wrong_stamp") + " was built for SDK ABI 0badc0de"));
  EXPECT_EQ(text("missing_dependency"),
            at("missing_dependency") + ": needs libtest_absent.so, which was not found (ldd " +
                plugin_file("missing_dependency").string() + ")");
  EXPECT_THAT(text("throws"), StartsWith("plugin error: no licence found\n  in the registration"));
  EXPECT_EQ(text("nothing"), at("nothing") + ": registers nothing");
  EXPECT_EQ(text("bad_default"),
            "plugin error: the default of field size does not pass its own checks: expected "
            "integer >= 1, got 0\n  in tokenizer/test_bad_default of plugin test_registration 0.1 "
            "(" +
                plugin_file("bad_default").string() + ")");
  EXPECT_EQ(check_plugin(kProgram, "/nonexistent/x.so").text,
            "plugin error: /nonexistent/x.so: there is no such file");
}

TEST(PluginCheck, AProgramThatCannotBeStarted) {
  const PluginCheck found = check_plugin("/nonexistent/tessera", plugin_file("good"));
  EXPECT_EQ(found.outcome, PluginCheck::bad);
  EXPECT_THAT(found.text, HasSubstr("the process ended in starting with exit code 127"));
}

}  // namespace check_test
}  // namespace tessera
