#include "kernel/train/shared_gradients.hpp"

#include <algorithm>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/ops.hpp"

namespace tessera {

void SharedGradients::add(Parameter& parameter, std::vector<int> holders) {
  const auto here = std::ranges::find(holders, pipeline_.index());
  require(here != holders.end(), "this rank does not hold \"{}\"", parameter.name);
  parameter.counted = here == holders.begin();
  if (holders.size() > 1) entries_.push_back({&parameter, std::move(holders)});
}

// The holders' tensors in the order of their stages; `own` stands for itself.
std::vector<Tensor> SharedGradients::gather(Context& cx,
                                            const Entry& entry,
                                            const Tensor& own) const {
  std::vector<Tensor> all;
  std::vector<ProcessGroup::Part> sends, receives;
  for (const int holder : entry.holders) {
    if (holder == pipeline_.index()) {
      all.push_back(own);
      continue;
    }
    all.push_back(cx.empty(own.shape(), own.dtype()));
    sends.push_back({holder, own});
    receives.push_back({holder, all.back()});
  }
  pipeline_.exchange(*cx.stream, sends, receives, entry.parameter->name).wait(*cx.stream);
  return all;
}

void SharedGradients::sum(Context& cx) const {
  Context for_copies = cx;
  for_copies.category = Category::communication;
  for (const Entry& entry : entries_) {
    const Tensor& gradient = entry.parameter->grad;
    const std::vector<Tensor> all = gather(for_copies, entry, gradient);
    Tensor sum = all[0];
    for (std::size_t i = 1; i < all.size(); ++i) {
      // The last sum lands in the gradient itself, which is read before it is overwritten.
      const Tensor to = i + 1 == all.size() ? gradient : for_copies.empty(sum.shape(), sum.dtype());
      AddArgs args{sum.arg(), all[i].arg(), to.arg()};
      ops::run(cx, cx.ops->add, args);
      sum = to;
    }
  }
}

void SharedGradients::check_equal(Context& cx) const {
  for (const Entry& entry : entries_) {
    const Tensor& own = entry.parameter->main;
    std::vector<std::vector<std::byte>> bytes;
    for (const Tensor& copy : gather(cx, entry, own)) {
      bytes.emplace_back(static_cast<std::size_t>(copy.bytes()));
      cx.device->read(copy, bytes.back().data());
    }
    for (std::size_t i = 1; i < bytes.size(); ++i) {
      require(bytes[i] == bytes[0],
              "the copies of \"{}\" on pipeline ranks {} and {} differ: their gradients were not "
              "summed",
              entry.parameter->name,
              entry.holders[0],
              entry.holders[i]);
    }
  }
}

}  // namespace tessera
