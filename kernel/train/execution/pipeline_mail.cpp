#include "kernel/train/execution/pipeline_mail.hpp"

#include <utility>

#include "tessera/error.hpp"

namespace tessera {

PipelineMail::PipelineMail(ProcessGroup& pipeline, std::vector<Boundary> boundaries)
    : pipeline_(pipeline), boundaries_(std::move(boundaries)) {}

PipelineMail::Key PipelineMail::key_of(const PlanAction::Message& message) {
  return {message.forward, message.microbatch, message.forward ? message.stage : message.stage - 1};
}

void PipelineMail::put(const Key& key, std::vector<Tensor> tensors) {
  const bool added = mail_.emplace(key, std::move(tensors)).second;
  require(added,
          "{} of microbatch {} after stage {} are there twice",
          key.forward ? "activations" : "gradients",
          key.microbatch,
          key.boundary);
}

std::vector<Tensor> PipelineMail::take(const Key& key) {
  auto node = mail_.extract(key);
  require(!node.empty(),
          "{} of microbatch {} after stage {} are used before they are there",
          key.forward ? "activations" : "gradients",
          key.microbatch,
          key.boundary);
  return std::move(node.mapped());
}

void PipelineMail::post(Context& cx, int action, const PlanAction& exchange) {
  std::vector<ProcessGroup::Part> sends, receives;
  CallName name("pipeline");
  for (const PlanAction::Message& message : exchange.sends) {
    for (Tensor& tensor : take(key_of(message))) sends.push_back({message.peer, std::move(tensor)});
    name.append(message.forward ? " F" : " B").append(i64{message.microbatch});
  }
  Context for_receives = cx;
  for_receives.category = Category::communication;
  for (const PlanAction::Message& message : exchange.receives) {
    const Key key = key_of(message);
    std::vector<Tensor> tensors;
    for (const BoundarySlot& slot : boundary(key.boundary)) {
      tensors.push_back(for_receives.empty(slot.shape, slot.dtype));
      receives.push_back({message.peer, tensors.back()});
    }
    put(key, std::move(tensors));
  }
  posted_.emplace(action, pipeline_.exchange(*cx.stream, sends, receives, name.view()));
}

void PipelineMail::wait(Context& cx, int action) {
  const auto posted = posted_.find(action);
  if (posted == posted_.end()) return;
  posted->second.wait_received(*cx.stream);
  if (!posted->second.pending()) posted_.erase(posted);
}

void PipelineMail::release(Context& cx, int action) {
  auto posted = posted_.extract(action);
  if (!posted.empty()) posted.mapped().wait(*cx.stream);
}

void PipelineMail::finish(Context& cx) {
  for (auto& [action, work] : posted_) work.wait(*cx.stream);
  posted_.clear();
}

}  // namespace tessera
