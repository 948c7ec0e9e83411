#include "kernel/comm/spanning_group.hpp"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>

#include "tessera/device/host_reduce.hpp"
#include "tessera/error.hpp"

namespace tessera {

namespace {

using namespace std::chrono_literals;

// Moves `within` on while the rank waits for another host: its neighbours may need that.
class Pump {
 public:
  Pump(Communicator& within, Communicator& between)
      : within_(within), between_(between), thread_([this] { run(); }) {}
  ~Pump() { stop(); }
  Pump(const Pump&) = delete;
  Pump& operator=(const Pump&) = delete;

  // Throws what went wrong here.
  void end() {
    stop();
    if (failure_) std::rethrow_exception(failure_);
  }

 private:
  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    if (thread_.joinable()) thread_.join();
  }

  void run() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      lock.unlock();
      bool open = false;
      try {
        open = within_.progress();
      } catch (const std::exception& error) {
        failure_ = std::current_exception();
        between_.abort(error.what());  // ends the rank's wait
      }
      lock.lock();
      if (!open) return;  // nothing new starts while the rank waits
      changed_.wait_for(lock, 50us, [this] { return stop_; });
    }
  }

  Communicator& within_;
  Communicator& between_;
  std::exception_ptr failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;  // the last: it uses all of the above
};

HostGroup* host_group_of(const std::unique_ptr<GroupBackend>& backend) {
  return backend == nullptr ? nullptr : backend->host_group();
}

// The run of `elements` elements at `address`.
TensorArg run_at(void* address, DType dtype, i64 elements) {
  TensorArg run;
  run.address = address;
  run.dtype = dtype;
  run.rank = 1;
  run.shape[0] = elements;
  run.strides[0] = 1;
  return run;
}
TensorArg part_of(const TensorArg& whole, i64 part, i64 elements) {
  return run_at(
      whole.as<std::byte>() + part * elements * dtype_size(whole.dtype), whole.dtype, elements);
}

}  // namespace

SpanningGroup::SpanningGroup(Device& device, const GroupSpec& spec, Parts parts)
    : HostGroup(device, spec, spec.rank_of(spec.index)),
      parts_(std::move(parts)),
      near_(host_group_of(parts_.near)),
      all_(*host_group_of(parts_.all)) {}

SpanningGroup::~SpanningGroup() = default;

void SpanningGroup::do_post(const Posted& posted) {
  const Collective& collective = posted.collective;
  // Kept from here on: if a second post fails, the first one still writes into this memory.
  UnderWay& made = under_way_[posted.ticket];
  // Sums that nobody waits for yet, such as gradients', are formed by `between` as their terms
  // come, while this rank computes.
  const bool waited_for =
      collective.kind == CollectiveKind::reduce_scatter && inside_layers(spec().lane);
  if (parts_.shared_hosts && moves_parts(collective.kind)) {
    post_transfers(collective, made);
  } else if (parts_.shared_hosts && (collective.kind == CollectiveKind::all_gather || waited_for)) {
    post_transfers(as_transfers(collective, made), made);
  } else {
    made.all = all_.post(collective);
  }
}

// Turns gathers and sums into parts that members send each other. The own part stays here.
Collective SpanningGroup::as_transfers(const Collective& collective, UnderWay& made) {
  const bool sums = collective.kind == CollectiveKind::reduce_scatter;
  const i64 elements = sums ? collective.output.elements() : collective.input.elements();
  const DType dtype = collective.input.dtype;
  const i64 bytes = elements * dtype_size(dtype);
  Collective parts;
  parts.kind = CollectiveKind::exchange;
  parts.name = collective.name;
  if (sums) {
    made.sum = collective;
    made.terms = scratch_.take(bytes * (spec().size() - 1));
  } else if (const TensorArg own = part_of(collective.output, spec().index, elements);
             own.address != collective.input.address && bytes > 0) {
    std::memcpy(own.address, collective.input.address, static_cast<std::size_t>(bytes));
  }
  std::byte* term = made.terms.data();
  for (int member = 0; member < spec().size(); ++member) {
    if (member == spec().index) continue;
    parts.sends.push_back(
        {member, sums ? part_of(collective.input, member, elements) : collective.input});
    parts.receives.push_back(
        {member,
         sums ? run_at(term, dtype, elements) : part_of(collective.output, member, elements)});
    if (sums) term += bytes;
  }
  return parts;
}

// What goes to other hosts starts first.
void SpanningGroup::post_transfers(const Collective& collective, UnderWay& made) {
  Collective near = collective, far = collective;
  const auto split = [&](std::vector<Transfer> Collective::*transfers) {
    (near.*transfers).clear();
    (far.*transfers).clear();
    for (const Transfer& transfer : collective.*transfers) {
      const int index = parts_.near_index[static_cast<std::size_t>(transfer.peer)];
      if (near_ == nullptr || index < 0) {
        (far.*transfers).push_back(transfer);
      } else {
        (near.*transfers).push_back({index, transfer.tensor});
      }
    }
  };
  split(&Collective::sends);
  split(&Collective::receives);
  if (!far.sends.empty() || !far.receives.empty()) made.all = all_.post(far);
  if (!near.sends.empty() || !near.receives.empty()) made.near = near_->post(near);
}

// Neighbours first: what goes to other hosts moves on by itself meanwhile.
void SpanningGroup::do_finish(Ticket ticket, Until until) {
  const auto found = under_way_.find(ticket);
  if (found == under_way_.end()) return;
  const UnderWay& open = found->second;
  if (open.near != 0) near_->finish(open.near, until);
  if (open.all != 0) {
    while_within_moves([&] { all_.finish(open.all, until); });
  }
  if (until == Until::received) return;
  const UnderWay done = std::move(found->second);
  under_way_.erase(found);
  if (done.sum) add_up(done);
}

void SpanningGroup::add_up(const UnderWay& done) {
  const Collective& sum = *done.sum;
  const i64 elements = sum.output.elements();
  std::vector<const void*> terms;
  const std::byte* term = done.terms.data();
  for (int member = 0; member < spec().size(); ++member) {
    if (member == spec().index) {
      terms.push_back(part_of(sum.input, member, elements).address);
    } else {
      terms.push_back(term);
      term += elements * dtype_size(sum.input.dtype);
    }
  }
  reduce_elements(sum.input.dtype, sum.op, terms, {sum.output.address}, elements);
}

template <class Wait>
void SpanningGroup::while_within_moves(Wait&& wait) {
  if (parts_.within == nullptr || !parts_.within->progress()) return wait();
  Pump pump(*parts_.within, *parts_.between);
  try {
    wait();
  } catch (...) {
    pump.end();  // throws the cause, if it was there
    throw;
  }
  pump.end();
}

}  // namespace tessera
