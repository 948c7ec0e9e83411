#include "kernel/comm/error_json.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <new>
#include <stdexcept>
#include <system_error>

namespace tessera {
namespace error_json_test {

using Kind = ErrorFrame::Kind;
using ::testing::HasSubstr;

template <class F>
Error thrown(F&& f) {
  try {
    f();
  } catch (...) {
    return error_in_flight();
  }
  return Error("nothing was thrown");
}

TEST(ErrorValue, IsReadFromTheOutermostFrameToTheComponent) {
  Error error("it broke", ErrorKind::peer_failed, 3);
  error.add(Kind::component, "layer/moe of plugin moe 0.3 (libtessera_moe.so)")
      .add(Kind::collective, "rank 1, group tp[0,1]: all_reduce \"x\"")
      .add(Kind::advice, "try again")
      .add(Kind::note, "saving step 3 failed")
      .add(Kind::culprit, "rank 3 did not start");
  EXPECT_STREQ(error.what(),
               "rank 3 did not start; found by saving step 3 failed: rank 1, group tp[0,1]: "
               "all_reduce \"x\": it broke\n  in layer/moe of plugin moe 0.3 (libtessera_moe.so); "
               "try again");
  EXPECT_EQ(error.text(), "it broke");
  EXPECT_TRUE(error.has(Kind::culprit));
  EXPECT_FALSE(error.has(Kind::place));
}

TEST(ErrorValue, ACopyIsAnotherValue) {
  const Error first("it broke");
  Error second = first;
  second.add(Kind::note, "later").add(Resource::memory);
  EXPECT_STREQ(first.what(), "it broke");
  EXPECT_EQ(first.resource(), Resource::none);
  EXPECT_EQ(first.of_rank(2).rank(), 2);
  EXPECT_EQ(first.rank(), Error::kNoRank);
}

TEST(ErrorValue, ALayerThatKnowsMoreKeepsTheType) {
  const auto rethrow = [] {
    try {
      fail_config("lr.decay = -1");
    } catch (...) {
      rethrow_with(Kind::place, "run.toml:3:1: [lr]");
    }
  };
  EXPECT_THROW(rethrow(), ConfigError);
  EXPECT_STREQ(thrown(rethrow).what(), "run.toml:3:1: [lr]: lr.decay = -1");
}

TEST(ErrorValue, OtherExceptionsBecomeErrors) {
  EXPECT_EQ(thrown([] { throw std::bad_alloc(); }).resource(), Resource::memory);
  EXPECT_STREQ(thrown([] { throw std::out_of_range("at 7"); }).what(), "at 7");
  EXPECT_STREQ(thrown([] { throw 7; }).what(), "an exception that is not a std::exception");
  const std::error_code many(EMFILE, std::generic_category());
  EXPECT_EQ(thrown([&] { throw std::system_error(many); }).resource(), Resource::open_files);
}

TEST(ErrorValue, KeepsWhatTheSystemRefused) {
  const Error error = thrown([] {
    errno = EFBIG;
    require(false, "cannot write {}: {}", "a file", SystemError());
  });
  EXPECT_EQ(error.resource(), Resource::file_size);
  EXPECT_STREQ(error.what(), "cannot write a file: File too large");
  EXPECT_EQ(thrown([] { fail_config("no thread: {}", SystemError(EAGAIN)); }).resource(),
            Resource::threads);
  EXPECT_EQ(thrown([] { fail("no file: {}", SystemError(ENOENT)); }).resource(), Resource::none);
}

TEST(ErrorJson, EveryErrorComesBackAsItWent) {
  for (const ErrorKind kind : {ErrorKind::own,
                               ErrorKind::configuration,
                               ErrorKind::peer_failed,
                               ErrorKind::peer_silent,
                               ErrorKind::interrupted}) {
    Error error("two\nlines, \"quoted\"", kind, 5);
    error.add(Resource::threads);
    for (const Kind frame : {Kind::note,
                             Kind::culprit,
                             Kind::told,
                             Kind::key,
                             Kind::choice,
                             Kind::advice,
                             Kind::operation,
                             Kind::collective,
                             Kind::place,
                             Kind::kernel,
                             Kind::component}) {
      error.add(frame, "more");
    }
    const Error back = error_of_json(error_json(error));
    EXPECT_STREQ(back.what(), error.what());
    EXPECT_EQ(back.kind(), kind);
    EXPECT_EQ(back.rank(), 5);
    EXPECT_EQ(back.resource(), Resource::threads);
    EXPECT_EQ(back.frames().size(), error.frames().size());
  }
  EXPECT_THROW(error_of_json(error_json(ConfigError("x"))).raise(), ConfigError);
}

TEST(ErrorJson, AnotherTextIsRefused) {
  for (const char* text : {"", "{}", "[1]", R"({"kind":"odd","rank":0,"text":"x","frames":[]})"}) {
    EXPECT_THAT(thrown([&] { (void)error_of_json(text); }).what(), HasSubstr("error")) << text;
  }
}

}  // namespace error_json_test
}  // namespace tessera
