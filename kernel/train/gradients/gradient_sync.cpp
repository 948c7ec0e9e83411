#include "kernel/train/gradients/gradient_sync.hpp"

#include <algorithm>
#include <utility>

#include "tessera/error.hpp"
#include "tessera/ops.hpp"

namespace tessera {

namespace {

constexpr std::size_t kRoundedAtOnce = 2;  // one is sent while another is made

Tensor part_of(const Tensor& flat, const FlatRange& range) {
  return flat.slice(0, range.begin, range.length);
}

void copy(Context& cx, const Tensor& from, const Tensor& to) {
  ops::run(cx, CopyArgs{from.arg(), to.arg()});
}

}  // namespace

GradientSync::GradientSync(ParameterMemory& memory,
                           const Mesh& mesh,
                           Device& device,
                           std::optional<DType> sent)
    : pipeline_(&mesh.group(Axis::pipeline)) {
  memory.allocate_gradients(device);
  flat_ = memory.gradients();
  sent_ = sent.value_or(flat_.dtype());
  all_main_ = memory.has_all_main();
  const Tensor& values = memory.compute().defined() ? memory.compute() : memory.main();
  for (const ParameterBucket& from : memory.buckets()) {
    const ParameterLayout& layout = from.members.front().parameter->layout;
    Bucket& bucket = buckets_.emplace_back();
    bucket.flat = flat_.slice(0, from.begin, from.elements);
    bucket.values = values.slice(0, from.begin, from.elements);
    for (const Axis axis : layout.partial()) bucket.partial.push_back(&mesh.group(axis));
    bucket.replicas = &layout.replicas(mesh);
    for (const ParameterBucket::Member& member : from.members) {
      if (member.shard == ParameterBucket::kCut) continue;
      const FlatRange range{member.begin, member.parameter->local.elements()};
      bucket.whole.push_back({part_of(bucket.values, range), static_cast<int>(member.shard)});
    }
    bucket.own_range = bucket.whole.empty() ? from.own_shard() : FlatRange{0, from.elements};
    bucket.own = part_of(bucket.flat, bucket.own_range);
    bucket.own_values = part_of(bucket.values, bucket.own_range);
    if (from.shards > 1) {
      require(from.shards == bucket.replicas->size(),
              "bucket {} is cut into {} shards, {} has {} members",
              buckets_.size() - 1,
              from.shards,
              bucket.replicas->name(),
              bucket.replicas->size());
      sharded_ = true;
    }
    bucket.name = fmt::format("gradients bucket {}", buckets_.size() - 1);
    bucket.values_name = fmt::format("parameters bucket {}", buckets_.size() - 1);
    // A shared parameter has a bucket of its own, so its holders have equal parts of it.
    if (layout.shared()) shared_.push_back({from.members.front().parameter, bucket.own});
  }
  old_.assign(buckets_.size(), sharded_);
  gathered_.resize(buckets_.size());
  // Stages declare in different orders.
  std::ranges::sort(shared_, {}, [](const Shared& shared) { return shared.parameter->name; });
}

void GradientSync::zero(Context& cx) const { ops::run(cx, FillArgs{flat_.arg(), 0}); }

void GradientSync::reduce(Context& cx, int index) {
  const Bucket& bucket = buckets_.at(static_cast<std::size_t>(index));
  for (ProcessGroup* group : bucket.partial) {
    group->all_reduce(*cx.stream, bucket.flat, ReduceOp::sum, bucket.name).wait(*cx.stream);
  }
  sum_replicas(cx, bucket);
}

// A rounded bucket takes memory until its sum is back, so few are under way at once.
void GradientSync::sum_replicas(Context& cx, const Bucket& bucket) {
  ProcessGroup& replicas = *bucket.replicas;
  Tensor flat = bucket.flat, own = bucket.own, rounded;
  if (replicas.size() > 1 && sent_ != flat.dtype()) {
    while (started_.size() >= kRoundedAtOnce) finish_first(cx);
    Context for_copies = cx;
    for_copies.category = Category::communication;
    flat = rounded = for_copies.empty(flat.shape(), sent_);
    own = part_of(flat, bucket.own_range);
    copy(cx, bucket.flat, rounded);
  }
  Work work = bucket.cut() ? replicas.reduce_scatter(*cx.stream, flat, own, bucket.name)
                           : replicas.all_reduce(*cx.stream, flat, ReduceOp::sum, bucket.name);
  started_.push_back({std::move(work), &bucket, rounded});
}

void GradientSync::finish_first(Context& cx) {
  auto& [work, bucket, rounded] = started_.front();
  work.wait(*cx.stream);
  if (rounded.defined()) copy(cx, part_of(rounded, bucket->own_range), bucket->own);
  started_.pop_front();
}

void GradientSync::finish(Context& cx) {
  while (!started_.empty()) finish_first(cx);
  sum_shared(cx);
}

void GradientSync::gather(Context& cx, int index) {
  const auto i = static_cast<std::size_t>(index);
  if (!old_.at(i)) return;
  old_[i] = false;
  const Bucket& bucket = buckets_[i];
  ProcessGroup& replicas = *bucket.replicas;
  for (const Bucket::Owned& owned : bucket.whole) {
    gathered_[i].push_back(
        replicas.broadcast(*cx.stream, owned.values, owned.owner, bucket.values_name));
  }
  if (!bucket.whole.empty()) return;
  gathered_[i].push_back(
      replicas.all_gather(*cx.stream, bucket.own_values, bucket.values, bucket.values_name));
}

void GradientSync::wait_gathered(Context& cx, int index) {
  std::vector<Work>& gathered = gathered_.at(static_cast<std::size_t>(index));
  for (Work& work : gathered) work.wait(*cx.stream);
  gathered.clear();
}

void GradientSync::gather_all(Context& cx) {
  for (int i = 0; i < static_cast<int>(buckets_.size()); ++i) gather(cx, i);
  for (int i = 0; i < static_cast<int>(buckets_.size()); ++i) wait_gathered(cx, i);
}

// The tensor of every holder, in stage order; for this rank `own` itself, not a copy.
std::vector<Tensor> GradientSync::of_holders(Context& cx,
                                             const Parameter& parameter,
                                             const Tensor& own) const {
  std::vector<Tensor> all;
  std::vector<ProcessGroup::Part> sends, receives;
  for (const int holder : parameter.layout.holders()) {
    if (holder == pipeline_->index()) {
      all.push_back(own);
      continue;
    }
    all.push_back(cx.empty(own.shape(), own.dtype()));
    sends.push_back({holder, own});
    receives.push_back({holder, all.back()});
  }
  pipeline_->exchange(*cx.stream, sends, receives, parameter.name).wait(*cx.stream);
  return all;
}

void GradientSync::sum_shared(Context& cx) const {
  Context for_copies = cx;
  for_copies.category = Category::communication;
  for (const auto& [parameter, gradient] : shared_) {
    const std::vector<Tensor> all = of_holders(for_copies, *parameter, gradient);
    Tensor sum = all[0];
    for (std::size_t i = 1; i < all.size(); ++i) {
      // The last sum lands in the gradient itself, which is read before it is overwritten.
      const Tensor to = i + 1 == all.size() ? gradient : for_copies.empty(sum.shape(), sum.dtype());
      ops::run(cx, AddArgs{sum.arg(), all[i].arg(), to.arg()});
      sum = to;
    }
  }
}

void GradientSync::check_shared_equal(Context& cx) const {
  for (const auto& [parameter, gradient] : shared_) {
    const std::vector<int>& holders = parameter->layout.holders();
    for (const auto& [name, values] : held_forms(*parameter)) {
      std::vector<std::vector<std::byte>> bytes;
      for (const Tensor& copy : of_holders(cx, *parameter, values)) {
        bytes.emplace_back(static_cast<std::size_t>(copy.bytes()));
        cx.device->read(copy, bytes.back().data());
      }
      for (std::size_t i = 1; i < bytes.size(); ++i) {
        require(bytes[i] == bytes[0],
                "the {} values of \"{}\" on pipeline ranks {} and {} differ: their gradients were "
                "not summed",
                name,
                parameter->name,
                holders[0],
                holders[i]);
      }
    }
  }
}

std::vector<GradientSync::HeldForm> GradientSync::held_forms(const Parameter& parameter) const {
  std::vector<HeldForm> forms;
  if (all_main_) forms.push_back({"main", parameter.main});
  if (!all_main_ || parameter.compute.dtype() != parameter.main.dtype()) {
    forms.push_back({"compute", parameter.compute});
  }
  return forms;
}

}  // namespace tessera
