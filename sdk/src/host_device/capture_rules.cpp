#include "tessera/device/capture_rules.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tessera/error.hpp"

namespace tessera {

CaptureRules::CaptureRules(u64 id, Stream& origin, int streams)
    : id_(id), origin_(origin), branches_(static_cast<std::size_t>(streams)) {
  for (Branch& branch : branches_) branch.clock.resize(branches_.size());
  branch(origin).stream = &origin;
}

CaptureRules::Branch& CaptureRules::branch(const Stream& stream) {
  return branches_[static_cast<std::size_t>(stream.index())];
}
const CaptureRules::Branch& CaptureRules::branch(const Stream& stream) const {
  return branches_[static_cast<std::size_t>(stream.index())];
}

bool CaptureRules::contains(const Stream& stream) const { return branch(stream).stream != nullptr; }

void CaptureRules::require_contains(const Stream& stream, std::string_view what) const {
  require(contains(stream),
          "{} on stream \"{}\" while capturing on stream \"{}\", which has not forked to it: let "
          "\"{}\" wait for an event recorded in the capture first",
          what,
          stream.name(),
          origin_.name(),
          stream.name());
}

LaunchRequirements CaptureRules::require_launch(const Stream& stream,
                                                const Kernel& kernel,
                                                const void* args,
                                                const LaunchSignatures& launched,
                                                bool pool_is_device,
                                                std::string_view device) const {
  const std::string what = fmt::format("operation \"{}\"", kernel.operation);
  require_contains(stream, what);
  const bool seen = launched.seen(kernel, args);
  const LaunchRequirements setup =
      seen && kernel.prepare ? kernel.prepare(args) : LaunchRequirements();
  require(seen && !setup.first_use,
          "{} is used for the first time at these shapes ({}) while capturing on stream \"{}\": "
          "run one warm-up before the capture, in which libraries set themselves up",
          what,
          tensors_text(kernel, args),
          origin_.name());
  require(setup.workspace_bytes == 0 || !pool_is_device,
          "{} takes {} bytes of workspace from the pool of device \"{}\", not the graph's own, "
          "while capturing on stream \"{}\": launch it with the pool that the graph keeps",
          what,
          setup.workspace_bytes,
          device,
          origin_.name());
  return setup;
}

void CaptureRules::add(const Stream& stream) {
  ++branch(stream).clock[static_cast<std::size_t>(stream.index())];
}

CapturePoint CaptureRules::record(const Stream& stream) const {
  return {id_, branch(stream).clock};
}

bool CaptureRules::wait(Stream& stream, const CapturePoint& point) {
  require(recorded(point),
          "stream \"{}\" waits for an event recorded outside the capture on stream \"{}\": what a "
          "graph waits for is recorded in it; wait before begin_capture",
          stream.name(),
          origin_.name());
  Branch& here = branch(stream);
  bool news = here.stream == nullptr;
  here.stream = &stream;
  for (std::size_t i = 0; i < here.clock.size(); ++i) {
    news |= point.clock[i] > here.clock[i];
    here.clock[i] = std::max(here.clock[i], point.clock[i]);
  }
  if (news) add(stream);
  return news;
}

void CaptureRules::refuse(std::string_view what) const {
  fail(
      "{} while capturing on stream \"{}\": a graph holds launches, copies, host tasks and events "
      "only; do it before the capture or after its end",
      what,
      origin_.name());
}

void CaptureRules::invalidate(std::string reason) {
  if (failure_.empty()) failure_ = std::move(reason);
}

void CaptureRules::require_complete() const {
  require(failure_.empty(),
          "the capture on stream \"{}\" failed before its end: {}",
          origin_.name(),
          failure_);
  const Branch& end = branch(origin_);
  for (std::size_t i = 0; i < branches_.size(); ++i) {
    const Branch& fork = branches_[i];
    require(!fork.stream || fork.clock[i] == end.clock[i],
            "the capture on stream \"{}\" ends while stream \"{}\", forked from it, is not joined: "
            "record an event at its end and let \"{}\" wait for it",
            origin_.name(),
            fork.stream ? fork.stream->name() : "",
            origin_.name());
  }
}

}  // namespace tessera
