// Captures and graphs of the runtime that stands in for CUDA's.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>
#include <thread>

#include "cuda_runtime.h"

namespace tessera {
namespace fake_capture_test {

class FakeCapture : public ::testing::Test {
 protected:
  void SetUp() override {
    cuda::emulated::reset();
    for (cudaStream_t* stream : {&stream_, &side_, &other_}) {
      ASSERT_EQ(cudaStreamCreateWithPriority(stream, cudaStreamNonBlocking, 0), cudaSuccess);
    }
    for (cudaEvent_t* event : {&fork_, &join_, &outside_}) {
      ASSERT_EQ(cudaEventCreateWithFlags(event, cudaEventDisableTiming), cudaSuccess);
    }
    ASSERT_EQ(cudaEventRecord(outside_, other_), cudaSuccess);
  }
  void TearDown() override { cuda::emulated::reset(); }

  void begin(cudaStreamCaptureMode mode = cudaStreamCaptureModeThreadLocal) {
    ASSERT_EQ(cudaStreamBeginCapture(stream_, mode), cudaSuccess);
  }
  cudaError_t end() { return cudaStreamEndCapture(stream_, &graph_); }
  /// A launch that writes its number.
  cudaError_t note(cudaStream_t stream, int number) {
    return cuda::emulated::enqueue_kernel(stream, [this, number] {
      ran_.push_back(number);
      return std::string();
    });
  }
  void fork() {
    ASSERT_EQ(cudaEventRecord(fork_, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(side_, fork_), cudaSuccess);
  }
  void join() {
    ASSERT_EQ(cudaEventRecord(join_, side_), cudaSuccess);
    ASSERT_EQ(cudaStreamWaitEvent(stream_, join_), cudaSuccess);
  }
  cudaStreamCaptureStatus status(cudaStream_t stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    EXPECT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
    return status;
  }
  /// The call is refused with `error` and spoils a capture.
  template <class F>
  void spoils(F call, cudaError_t error) {
    begin();
    EXPECT_EQ(call(), error);
    EXPECT_EQ(status(stream_), cudaStreamCaptureStatusInvalidated);
    EXPECT_EQ(note(stream_, 0), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
    EXPECT_EQ(graph_, nullptr);
    EXPECT_EQ(status(stream_), cudaStreamCaptureStatusNone);
  }

  cudaStream_t stream_ = nullptr, side_ = nullptr, other_ = nullptr;
  cudaEvent_t fork_ = nullptr, join_ = nullptr, outside_ = nullptr;
  cudaGraph_t graph_ = nullptr;
  std::vector<int> ran_;
};

TEST_F(FakeCapture, RecordsAndReplays) {
  begin();
  EXPECT_EQ(status(stream_), cudaStreamCaptureStatusActive);
  for (int i = 0; i < 3; ++i) ASSERT_EQ(note(stream_, i), cudaSuccess);
  ASSERT_EQ(end(), cudaSuccess);
  std::size_t count = 0;
  ASSERT_EQ(cudaGraphGetNodes(graph_, nullptr, &count), cudaSuccess);
  EXPECT_EQ(count, 3U);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph_), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph_), cudaSuccess);
  EXPECT_TRUE(ran_.empty());
  ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec, other_), cudaSuccess) << "launches of one graph do not overlap";
  ASSERT_EQ(cudaGraphExecDestroy(exec), cudaSuccess);
  EXPECT_THAT(ran_, ::testing::ElementsAre(0, 1, 2, 0, 1, 2));
  EXPECT_EQ(cuda::emulated::usage().graphs, 0);
  EXPECT_EQ(cudaGraphLaunch(exec, stream_), cudaErrorInvalidResourceHandle);
}

TEST_F(FakeCapture, SpreadsAlongEventsAndReplaysInOrdersThatTheyAllow) {
  begin();
  note(stream_, 0);
  fork();
  EXPECT_EQ(status(side_), cudaStreamCaptureStatusActive);
  note(side_, 1);
  note(stream_, 2);
  join();
  note(stream_, 3);
  ASSERT_EQ(end(), cudaSuccess);
  EXPECT_EQ(status(side_), cudaStreamCaptureStatusNone);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph_), cudaSuccess);
  std::set<std::vector<int>> orders;
  for (int i = 0; i < 50; ++i) {
    ran_.clear();
    ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
    ASSERT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    orders.insert(ran_);
  }
  EXPECT_EQ(orders, (std::set<std::vector<int>>{{0, 1, 2, 3}, {0, 2, 1, 3}}));
}

TEST_F(FakeCapture, OtherStreamsAreNotCaptured) {
  begin();
  ASSERT_EQ(note(other_, 7), cudaSuccess);
  ASSERT_EQ(end(), cudaSuccess);
  ASSERT_EQ(cudaStreamSynchronize(other_), cudaSuccess);
  EXPECT_THAT(ran_, ::testing::ElementsAre(7));
}

TEST_F(FakeCapture, WhatWaitsOrAsksSpoilsIt) {
  const auto unsupported = cudaErrorStreamCaptureUnsupported;
  spoils([&] { return cudaStreamSynchronize(stream_); }, unsupported);
  spoils([&] { return cudaStreamQuery(stream_); }, unsupported);
  spoils([&] { return cudaStreamSynchronize(other_); }, unsupported);
  spoils([&] { return cudaDeviceSynchronize(); }, unsupported);
  spoils([&] { return cudaEventQuery(outside_); }, unsupported);
  const auto captured = [&](auto ask) {
    EXPECT_EQ(cudaEventRecord(fork_, stream_), cudaSuccess);
    return ask(fork_);
  };
  spoils([&] { return captured(cudaEventQuery); }, cudaErrorCapturedEvent);
  spoils([&] { return captured(cudaEventSynchronize); }, cudaErrorCapturedEvent);
  EXPECT_EQ(cudaEventQuery(fork_), cudaErrorCapturedEvent) << "when it has ended, too";
}

TEST_F(FakeCapture, WhatTakesOrReturnsMemorySpoilsIt) {
  const auto unsupported = cudaErrorStreamCaptureUnsupported;
  void* memory = nullptr;
  spoils([&] { return cudaMalloc(&memory, 1); }, unsupported);
  spoils([&] { return cudaHostAlloc(&memory, 1, 0); }, unsupported);
  ASSERT_EQ(cudaMalloc(&memory, 1), cudaSuccess);
  spoils([&] { return cudaFree(memory); }, unsupported);
  char pageable = 0;
  spoils([&] { return cudaMemcpyAsync(memory, &pageable, 1, cudaMemcpyHostToDevice, stream_); },
         unsupported);
}

TEST_F(FakeCapture, ThreadsSeeItAsItsModeSays) {
  using Mode = cudaStreamCaptureMode;
  const auto elsewhere = [&](Mode mode) {
    cudaError_t result = cudaSuccess;
    std::thread([&] {
      cudaThreadExchangeStreamCaptureMode(&mode);
      result = cudaEventQuery(outside_);
    }).join();
    return result == cudaErrorNotReady ? cudaSuccess : result;
  };
  begin(cudaStreamCaptureModeThreadLocal);
  EXPECT_EQ(elsewhere(cudaStreamCaptureModeGlobal), cudaSuccess);
  EXPECT_EQ(end(), cudaSuccess);
  begin(cudaStreamCaptureModeGlobal);
  EXPECT_EQ(elsewhere(cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(elsewhere(cudaStreamCaptureModeGlobal), cudaErrorStreamCaptureUnsupported);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  begin(cudaStreamCaptureModeThreadLocal);
  Mode mode = cudaStreamCaptureModeRelaxed;
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(mode, cudaStreamCaptureModeGlobal);
  EXPECT_EQ(cudaStreamSynchronize(other_), cudaSuccess);
  ASSERT_EQ(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
  EXPECT_EQ(end(), cudaSuccess);
  begin(cudaStreamCaptureModeThreadLocal);
  std::thread([&] { EXPECT_EQ(end(), cudaErrorStreamCaptureWrongThread); }).join();
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
}

TEST_F(FakeCapture, WorkFromOutsideIsRefused) {
  spoils([&] { return cudaStreamWaitEvent(stream_, outside_); }, cudaErrorStreamCaptureIsolation);
}

TEST_F(FakeCapture, AForkHasToBeJoined) {
  begin();
  note(stream_, 0);
  fork();
  note(side_, 1);
  EXPECT_EQ(end(), cudaErrorStreamCaptureUnjoined);
  EXPECT_EQ(graph_, nullptr);
  EXPECT_EQ(note(side_, 2), cudaSuccess) << "it is no longer captured";
}

TEST_F(FakeCapture, ItEndsWhereItBegan) {
  begin();
  EXPECT_EQ(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeGlobal), cudaErrorIllegalState);
  note(stream_, 0);
  fork();
  EXPECT_EQ(cudaStreamEndCapture(side_, &graph_), cudaErrorStreamCaptureUnmatched);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(end(), cudaErrorIllegalState);
}

TEST_F(FakeCapture, TwoDoNotMerge) {
  begin();
  ASSERT_EQ(cudaStreamBeginCapture(other_, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(fork_, other_), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream_, fork_), cudaErrorStreamCaptureMerge);
  EXPECT_EQ(end(), cudaErrorStreamCaptureInvalidated);
  EXPECT_EQ(cudaStreamEndCapture(other_, &graph_), cudaErrorStreamCaptureInvalidated);
}

TEST_F(FakeCapture, AnErrorInAGraphStays) {
  begin();
  cuda::emulated::enqueue_kernel(stream_, [] { return std::string("a kernel's error"); });
  ASSERT_EQ(end(), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  ASSERT_EQ(cudaGraphInstantiate(&exec, graph_), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec, stream_), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
  EXPECT_STREQ(cudaGetErrorString(cudaErrorLaunchFailure), "a kernel's error");
}

}  // namespace fake_capture_test
}  // namespace tessera
