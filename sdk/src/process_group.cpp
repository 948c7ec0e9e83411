#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "tessera/comm.hpp"
#include "tessera/error.hpp"
#include "tessera/host_comm.hpp"
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

Work::Work(std::shared_ptr<PendingCollective> pending, std::vector<Tensor> tensors)
    : pending_(std::move(pending)), tensors_(std::move(tensors)) {}

void Work::wait(Stream& stream) {
  if (pending_ == nullptr) return;
  pending_->wait(stream);
  *this = {};
}

void Work::join() {
  if (pending_ == nullptr) return;
  pending_->join();
  *this = {};
}

namespace {

constexpr std::size_t kFlightRecords = 32;

// Who does what where. Becomes a text only for an error: there is one for every collective.
struct Place {
  i64 rank;
  std::string group;
  CollectiveKind kind;
  std::string name;
  std::string text() const {
    return fmt::format("rank {}, group {}: {} \"{}\"", rank, group, collective_name(kind), name);
  }
};

// Says rank, group and operation once, also when the backend's text does not.
template <class F>
auto with_place(const Place& place, F&& f) {
  try {
    return f();
  } catch (const Error& error) {
    if (std::string_view(error.what()).find(place.group) != std::string_view::npos) throw;
    throw Error(place.text() + ": " + error.what(), error.exit_code());
  }
}

class PlacedPending : public PendingCollective {
 public:
  PlacedPending(std::shared_ptr<PendingCollective> inner, Place place)
      : inner_(std::move(inner)), place_(std::move(place)) {}
  void wait(Stream& stream) override {
    with_place(place_, [&] { inner_->wait(stream); });
  }
  void join() override {
    with_place(place_, [&] { inner_->join(); });
  }

 private:
  std::shared_ptr<PendingCollective> inner_;
  Place place_;
};

Collective collective_of(CollectiveKind kind, std::string_view name) {
  Collective collective;
  collective.kind = kind;
  collective.name = name;
  return collective;
}

// A group of one needs no peers, only its result in the right place.
void copy_within(const Tensor& from, const Tensor& to) {
  const CopyArgs args{from.arg(), to.arg()};
  if (args.x.address == args.out.address || from.elements() == 0) return;
  Device& device = from.device();
  Operation<CopyArgs>(device).launch(device.stream(), device.pool(), args);
}

i64 sent_bytes(const Collective& c) {
  const auto bytes = [](const TensorArg& t) {
    return t ? t.elements() * dtype_size(t.dtype) : i64{0};
  };
  i64 sum = bytes(c.input);
  for (const Transfer& send : c.sends) sum += bytes(send.tensor);
  return sum;
}

std::string text_of(const TensorArg& t) {
  return fmt::format("{} [{}]", dtype_name(t.dtype), fmt::join(t.shape, t.shape + t.rank, ", "));
}

}  // namespace

ProcessGroup::ProcessGroup(GroupSpec spec, std::unique_ptr<GroupBackend> backend, i64 rank)
    : spec_(std::move(spec)), backend_(std::move(backend)), rank_(rank) {
  require(spec_.index >= 0 && spec_.index < size() &&
              spec_.members[static_cast<std::size_t>(spec_.index)] == rank,
          "rank {} is not member {} of {}",
          rank,
          spec_.index,
          spec_.name);
  require(size() == 1 || backend_ != nullptr, "group {} has no communicator", spec_.name);
}

ProcessGroup::~ProcessGroup() = default;

bool ProcessGroup::capturable() const { return size() == 1 || backend_->capturable(); }

Work ProcessGroup::all_reduce(const Tensor& tensor, ReduceOp op, std::string_view name) {
  if (size() == 1) return {};
  Collective collective = collective_of(CollectiveKind::all_reduce, name);
  collective.input = tensor.arg();
  collective.op = op;
  return start(std::move(collective), {tensor});
}

Work ProcessGroup::all_gather(const Tensor& input, const Tensor& output, std::string_view name) {
  require(input.dtype() == output.dtype() && output.elements() == size() * input.elements(),
          "rank {}, group {}: all_gather \"{}\": the output {} must hold {} times the input {}",
          rank_,
          spec_.name,
          name,
          output,
          size(),
          input);
  if (size() == 1) {
    copy_within(input.view(output.shape()), output);
    return {};
  }
  Collective collective = collective_of(CollectiveKind::all_gather, name);
  collective.input = input.arg();
  collective.output = output.arg();
  return start(std::move(collective), {input, output});
}

Work ProcessGroup::reduce_scatter(const Tensor& input,
                                  const Tensor& output,
                                  std::string_view name) {
  require(input.dtype() == output.dtype() && input.elements() == size() * output.elements(),
          "rank {}, group {}: reduce_scatter \"{}\": the input {} must hold {} times the output {}",
          rank_,
          spec_.name,
          name,
          input,
          size(),
          output);
  if (size() == 1) {
    copy_within(input.view(output.shape()), output);
    return {};
  }
  Collective collective = collective_of(CollectiveKind::reduce_scatter, name);
  collective.input = input.arg();
  collective.output = output.arg();
  return start(std::move(collective), {input, output});
}

Work ProcessGroup::broadcast(const Tensor& tensor, int root, std::string_view name) {
  require(root >= 0 && root < size(),
          "rank {}, group {}: broadcast \"{}\": there is no member {}",
          rank_,
          spec_.name,
          name,
          root);
  if (size() == 1) return {};
  Collective collective = collective_of(CollectiveKind::broadcast, name);
  collective.input = tensor.arg();
  collective.root = root;
  return start(std::move(collective), {tensor});
}

Work ProcessGroup::exchange(const std::vector<Part>& sends,
                            const std::vector<Part>& receives,
                            std::string_view name) {
  return transfer(CollectiveKind::exchange, sends, receives, name);
}

Work ProcessGroup::all_to_all(const std::vector<Part>& sends,
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
            spec_.name,
            name,
            parts == &sends ? "send" : "receive",
            size(),
            parts->size());
  }
  return transfer(CollectiveKind::all_to_all, sends, receives, name);
}

Work ProcessGroup::transfer(CollectiveKind kind,
                            const std::vector<Part>& sends,
                            const std::vector<Part>& receives,
                            std::string_view name) {
  Collective collective = collective_of(kind, name);
  std::vector<Tensor> tensors;
  const auto add = [&](const std::vector<Part>& parts, std::vector<Transfer>& transfers) {
    for (const Part& part : parts) {
      require(part.peer >= 0 && part.peer < size(),
              "rank {}, group {}: {} \"{}\": there is no member {}",
              rank_,
              spec_.name,
              collective_name(kind),
              name,
              part.peer);
      transfers.push_back({part.peer, part.tensor.arg()});
      tensors.push_back(part.tensor);
    }
  };
  add(sends, collective.sends);
  add(receives, collective.receives);
  if (size() == 1) {
    require(sends.size() == receives.size(),
            "group {}: {} \"{}\": {} sends to itself, {} receives",
            spec_.name,
            collective_name(kind),
            name,
            sends.size(),
            receives.size());
    for (std::size_t i = 0; i < sends.size(); ++i) {
      copy_within(sends[i].tensor, receives[i].tensor);
    }
    return {};
  }
  if (tensors.empty()) return {};
  return start(std::move(collective), std::move(tensors));
}

void ProcessGroup::barrier(Stream& stream, std::string_view name) {
  if (size() == 1) return;
  Collective collective = collective_of(CollectiveKind::barrier, name);
  record(collective);
  const Place place{rank_, spec_.name, collective.kind, collective.name};
  with_place(place, [&] { backend_->start(std::move(collective), stream)->join(); });
}

Work ProcessGroup::start(Collective collective, std::vector<Tensor> tensors) {
  Place place{rank_, spec_.name, collective.kind, collective.name};
  for (const Tensor& tensor : tensors) {
    if (!tensor.dense()) fail("{}: {} is not dense", place.text(), tensor);
  }
  Device& device = tensors.front().device();
  // A recorded collective counts when it is replayed.
  if (device.capturing() && dynamic_cast<HostGroup*>(backend_.get()) != nullptr) {
    device.launch_host(
        device.stream(), "flight recorder", [this, collective] { record(collective); });
  } else {
    record(collective);
  }
  auto pending =
      with_place(place, [&] { return backend_->start(std::move(collective), device.stream()); });
  auto placed = std::make_shared<PlacedPending>(std::move(pending), std::move(place));
  return Work(std::move(placed), std::move(tensors));
}

void ProcessGroup::record(const Collective& collective) {
  GroupCounters::Entry& entry = counters_.kinds[static_cast<int>(collective.kind)];
  ++entry.calls;
  const i64 bytes = sent_bytes(collective);
  entry.bytes += bytes;
  if (flight_.size() < kFlightRecords) flight_.emplace_back();
  std::string& line = flight_[sequence_ % kFlightRecords];
  line = fmt::format(
      "{} #{} {} {} ", spec_.name, sequence_, collective_name(collective.kind), collective.name);
  line += collective.input ? text_of(collective.input) : fmt::format("{} bytes", bytes);
  ++sequence_;
}

std::vector<std::string> ProcessGroup::flight_record() const {
  std::vector<std::string> newest_last;
  for (std::size_t i = 0; i < flight_.size(); ++i) {
    const std::size_t first = flight_.size() < kFlightRecords ? 0 : sequence_ % kFlightRecords;
    newest_last.push_back(flight_[(first + i) % flight_.size()]);
  }
  return newest_last;
}

}  // namespace tessera
