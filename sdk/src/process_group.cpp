#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sdk/src/shared/progress.hpp"
#include "tessera/device/communicator.hpp"
#include "tessera/error.hpp"
#include "tessera/log.hpp"
#include "tessera/operation.hpp"
#include "tessera/ops/elementwise.hpp"

namespace tessera {

std::string_view collective_name(CollectiveKind kind) {
  constexpr std::string_view kNames[] = {"all_reduce",
                                         "all_gather",
                                         "reduce_scatter",
                                         "broadcast",
                                         "all_to_all",
                                         "exchange",
                                         "barrier"};
  return kNames[static_cast<int>(kind)];
}

std::string CollectivePlace::text() const {
  const std::string count = number ? fmt::format(" #{}", *number) : "";
  return fmt::format("rank {}, group {}: {} \"{}\"{}",
                     rank,
                     group->name,
                     collective_name(kind),
                     name.view(),
                     count);
}

namespace {

// Says rank, group and operation once, also when the backend's text does not.
template <class F>
auto with_place(const CollectivePlace& place, F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    if (error.has(ErrorFrame::Kind::collective)) throw;
    rethrow_with(ErrorFrame::Kind::collective, place.text());
  }
}

Collective collective_of(CollectiveKind kind, std::string_view name) {
  Collective collective;
  collective.kind = kind;
  collective.name = name;
  return collective;
}

// A group of one needs no peers, only its result in the right place.
void copy_within(Stream& after, const Tensor& from, const Tensor& to) {
  const CopyArgs args{from.arg(), to.arg()};
  if (args.x.address == args.out.address || from.elements() == 0) return;
  Device& device = from.device();
  Operation<CopyArgs>(device).launch(after, device.pool(), args);
}

// What stays on this member is not sent.
i64 sent_bytes(const Collective& c, int own) {
  i64 sum = c.input.bytes();
  for (const Transfer& send : c.sends) {
    if (send.peer != own) sum += send.tensor.bytes();
  }
  return sum;
}

void require_dense(const Tensor& tensor, const GroupSpec& group, std::string_view name) {
  if (!tensor.dense()) fail("group {}: \"{}\": {} is not dense", group.name, name, tensor);
}

}  // namespace

ProcessGroup::ProcessGroup(GroupSpec spec,
                           std::unique_ptr<GroupBackend> backend,
                           i64 rank,
                           Progress* progress)
    : spec_(std::make_shared<const GroupSpec>(std::move(spec))),
      backend_(std::move(backend)),
      rank_(rank),
      progress_(progress) {
  require(index() >= 0 && index() < size() && spec_->rank_of(index()) == rank,
          "rank {} is not member {} of {}",
          rank,
          index(),
          name());
  require(size() == 1 || backend_ != nullptr, "group {} has no communicator", name());
  if (progress_ != nullptr && size() > 1) place_ = progress_->add_group(name());
}

ProcessGroup::~ProcessGroup() {
  if (place_ >= 0) progress_->release_group(place_);
}

bool ProcessGroup::capturable() const { return size() == 1 || backend_->capturable(); }

Work ProcessGroup::all_reduce(Stream& after,
                              const Tensor& tensor,
                              ReduceOp op,
                              std::string_view name) {
  if (size() == 1) return {};
  Collective collective = collective_of(CollectiveKind::all_reduce, name);
  collective.input = tensor.arg();
  collective.op = op;
  require_dense(tensor, *spec_, name);
  return Work(start(after, std::move(collective)), after, tensor.memory(), nullptr);
}

Work ProcessGroup::all_gather(Stream& after,
                              const Tensor& input,
                              const Tensor& output,
                              std::string_view name) {
  require(input.dtype() == output.dtype() && output.elements() == size() * input.elements(),
          "rank {}, group {}: all_gather \"{}\": the output {} must hold {} times the input {}",
          rank_,
          spec_->name,
          name,
          output,
          size(),
          input);
  if (size() == 1) {
    copy_within(after, input.view(output.shape()), output);
    return {};
  }
  Collective collective = collective_of(CollectiveKind::all_gather, name);
  collective.input = input.arg();
  collective.output = output.arg();
  require_dense(input, *spec_, name);
  require_dense(output, *spec_, name);
  return Work(start(after, std::move(collective)), after, input.memory(), output.memory());
}

Work ProcessGroup::reduce_scatter(Stream& after,
                                  const Tensor& input,
                                  const Tensor& output,
                                  std::string_view name) {
  require(input.dtype() == output.dtype() && input.elements() == size() * output.elements(),
          "rank {}, group {}: reduce_scatter \"{}\": the input {} must hold {} times the output {}",
          rank_,
          spec_->name,
          name,
          input,
          size(),
          output);
  if (size() == 1) {
    copy_within(after, input.view(output.shape()), output);
    return {};
  }
  Collective collective = collective_of(CollectiveKind::reduce_scatter, name);
  collective.input = input.arg();
  collective.output = output.arg();
  require_dense(input, *spec_, name);
  require_dense(output, *spec_, name);
  return Work(start(after, std::move(collective)), after, input.memory(), output.memory());
}

Work ProcessGroup::broadcast(Stream& after, const Tensor& tensor, int root, std::string_view name) {
  require(root >= 0 && root < size(),
          "rank {}, group {}: broadcast \"{}\": there is no member {}",
          rank_,
          spec_->name,
          name,
          root);
  if (size() == 1) return {};
  Collective collective = collective_of(CollectiveKind::broadcast, name);
  collective.input = tensor.arg();
  collective.root = root;
  require_dense(tensor, *spec_, name);
  return Work(start(after, std::move(collective)), after, tensor.memory(), nullptr);
}

Work ProcessGroup::exchange(Stream& after,
                            const std::vector<Part>& sends,
                            const std::vector<Part>& receives,
                            std::string_view name) {
  return transfer(CollectiveKind::exchange, after, sends, receives, name);
}

Work ProcessGroup::all_to_all(Stream& after,
                              const std::vector<Part>& sends,
                              const std::vector<Part>& receives,
                              std::string_view name) {
  for (const auto* parts : {&sends, &receives}) {
    std::vector<bool> named(static_cast<std::size_t>(size()), false);
    for (const Part& part : *parts) {
      if (part.peer >= 0 && part.peer < size()) named[static_cast<std::size_t>(part.peer)] = true;
    }
    require(parts->size() == named.size() && std::ranges::count(named, true) == size(),
            "rank {}, group {}: all_to_all \"{}\" needs one {} for each of {} members, has {}",
            rank_,
            spec_->name,
            name,
            parts == &sends ? "send" : "receive",
            size(),
            parts->size());
  }
  return transfer(CollectiveKind::all_to_all, after, sends, receives, name);
}

Work ProcessGroup::transfer(CollectiveKind kind,
                            Stream& after,
                            const std::vector<Part>& sends,
                            const std::vector<Part>& receives,
                            std::string_view name) {
  Collective collective = collective_of(kind, name);
  const auto add = [&](const std::vector<Part>& parts, std::vector<Transfer>& transfers) {
    std::vector<Work::Memory> memory;
    for (const Part& part : parts) {
      require(part.peer >= 0 && part.peer < size(),
              "rank {}, group {}: {} \"{}\": there is no member {}",
              rank_,
              spec_->name,
              collective_name(kind),
              name,
              part.peer);
      require_dense(part.tensor, *spec_, name);
      transfers.push_back({part.peer, part.tensor.arg()});
      memory.push_back(part.tensor.memory());
    }
    return memory;
  };
  std::vector<Work::Memory> sent = add(sends, collective.sends);
  std::vector<Work::Memory> received = add(receives, collective.receives);
  if (size() == 1) {
    require(sends.size() == receives.size(),
            "group {}: {} \"{}\": {} sends to itself, {} receives",
            spec_->name,
            collective_name(kind),
            name,
            sends.size(),
            receives.size());
    for (std::size_t i = 0; i < sends.size(); ++i) {
      copy_within(after, sends[i].tensor, receives[i].tensor);
    }
    return {};
  }
  if (sends.empty() && receives.empty()) return {};
  return Work(start(after, std::move(collective)), after, std::move(sent), std::move(received));
}

Work ProcessGroup::exchange_rows(Stream& after,
                                 std::span<const Rows> sends,
                                 std::span<const Rows> receives,
                                 std::string_view name) {
  if (size() == 1) {
    const auto parts_of = [](std::span<const Rows> rows) {
      std::vector<Part> parts;
      for (const Rows& part : rows) {
        parts.push_back({part.peer, part.of->slice(0, part.first, part.count)});
      }
      return parts;
    };
    return exchange(after, parts_of(sends), parts_of(receives), name);
  }
  Collective collective = collective_of(CollectiveKind::exchange, name);
  const auto add = [&](std::span<const Rows> parts, std::vector<Transfer>& transfers) {
    std::vector<Work::Memory> memory;
    if (!backend_->counts_only()) transfers.reserve(parts.size());
    const Tensor* of = nullptr;
    TensorArg rows;
    i64 row_bytes = 0;
    for (const Rows& part : parts) {
      const bool same = part.of == of;
      if (!same) {
        of = part.of;
        require_dense(*of, *spec_, name);
        rows = of->arg();
        row_bytes = rows.strides[0] * dtype_size(rows.dtype);
        memory.push_back(of->memory());
      }
      const bool inside = part.peer >= 0 && part.peer < size() && part.first >= 0 &&
                          part.count >= 0 && part.first + part.count <= of->dim(0);
      if (!inside) {
        fail("rank {}, group {}: exchange \"{}\": rows {} to {} of {} for member {}",
             rank_,
             spec_->name,
             name,
             part.first,
             part.first + part.count,
             *of,
             part.peer);
      }
      if (same && backend_->counts_only() && transfers.back().peer == part.peer) {
        transfers.back().tensor.shape[0] += part.count;
        continue;
      }
      Transfer& transfer = transfers.emplace_back(Transfer{part.peer, rows});
      transfer.tensor.address = rows.as<std::byte>() + part.first * row_bytes;
      transfer.tensor.shape[0] = part.count;
    }
    return memory;
  };
  std::vector<Work::Memory> sent = add(sends, collective.sends);
  std::vector<Work::Memory> received = add(receives, collective.receives);
  if (sends.empty() && receives.empty()) return {};
  return Work(start(after, std::move(collective)), after, std::move(sent), std::move(received));
}

void ProcessGroup::barrier(Stream& stream, std::string_view name) {
  if (size() == 1) return;
  Work(start(stream, collective_of(CollectiveKind::barrier, name)), stream, nullptr, nullptr)
      .join();
}

std::shared_ptr<PendingCollective> ProcessGroup::start(Stream& after, Collective collective) {
  CollectivePlace place{rank_, spec_, collective.kind, collective.name};
  const auto record = [this,
                       kind = collective.kind,
                       name = collective.name,
                       input = collective.input,
                       bytes = sent_bytes(collective, index())] {
    GroupCounters::Entry& entry = counters_.kinds[static_cast<int>(kind)];
    ++entry.calls;
    entry.bytes += bytes;
    if (progress_ != nullptr) progress_->begin_collective(place_, kind, name, input, bytes);
  };
  // A recorded collective counts when it is replayed.
  Device& device = after.device();
  if (device.capturing() && !backend_->capturable()) {
    fail(
        "{}: its communicator cannot record collectives in graphs: choose graph.type = \"none\", "
        "or a graph.scope of phases in which ranks exchange nothing",
        place.text());
  }
  if (!device.capturing()) {
    record();
  } else if (backend_->host_group() != nullptr) {
    device.launch_host(after, "flight recorder", record);  // when it is its turn to block the rank
  } else {
    device.on_replay({.before = [record](Stream&) { record(); }, .after = {}});
  }
  return with_place(place, [&] {
    std::shared_ptr<PendingCollective> pending = backend_->start(std::move(collective), after);
    pending->place_ = std::move(place);
    return pending;
  });
}

// --- Work

Work::Work(std::shared_ptr<PendingCollective> pending, Stream& after, Memory first, Memory second)
    : pending_(std::move(pending)),
      after_(&after),
      first_(std::move(first)),
      second_(std::move(second)) {}

Work::Work(std::shared_ptr<PendingCollective> pending,
           Stream& after,
           std::vector<Memory> sends,
           std::vector<Memory> receives)
    : pending_(std::move(pending)),
      after_(&after),
      sends_(std::move(sends)),
      receives_(std::move(receives)) {}

Work::Work(Work&& other) noexcept { *this = std::move(other); }

Work& Work::operator=(Work&& other) noexcept {
  if (this == &other) return *this;
  drop();
  pending_ = std::move(other.pending_);
  after_ = other.after_;
  first_ = std::move(other.first_);
  second_ = std::move(other.second_);
  sends_ = std::move(other.sends_);
  receives_ = std::move(other.receives_);
  return *this;
}

Work::~Work() { drop(); }

Work Work::share() const {
  Work other;
  other.pending_ = pending_;
  other.after_ = after_;
  other.first_ = first_;
  other.second_ = second_;
  other.sends_ = sends_;
  other.receives_ = receives_;
  return other;
}

void Work::drop() noexcept {
  // While an exception unwinds the stack peers may never come: waiting would hide the exception.
  if (pending_ == nullptr || std::uncaught_exceptions() > 0) return;
  try {
    wait(*after_);
  } catch (const std::exception& error) {
    log(LogLevel::error, fmt::format("a collective that nobody waited for: {}", error.what()));
  }
}

void Work::wait(Stream& stream) {
  if (pending_ == nullptr) return;
  const std::shared_ptr<PendingCollective> pending = std::move(pending_);
  with_place(pending->place_, [&] { pending->wait(stream); });
  release();
}

void Work::wait_received(Stream& stream) {
  if (sends_.empty()) return wait(stream);
  if (pending_ == nullptr) return;
  with_place(pending_->place_, [&] { pending_->wait_received(stream); });
  receives_.clear();
}

void Work::join() {
  if (pending_ == nullptr) return;
  const std::shared_ptr<PendingCollective> pending = std::move(pending_);
  with_place(pending->place_, [&] { pending->join(); });
  release();
}

void Work::release() {
  first_.reset();
  second_.reset();
  sends_.clear();
  receives_.clear();
}

}  // namespace tessera
