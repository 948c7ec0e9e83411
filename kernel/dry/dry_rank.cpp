#include "kernel/dry/dry_rank.hpp"

#include <utility>

namespace tessera {

Rank dry_rank(const Layout& layout,
              i64 rank,
              std::shared_ptr<Device> stands_for,
              DryEvents events,
              double imbalance) {
  return join_rank(layout,
                   rank,
                   std::make_shared<SimulatedCommunicator>(std::move(events.collectives)),
                   std::make_shared<MetaDevice>(std::move(stands_for),
                                                std::move(events.launched),
                                                std::move(events.read),
                                                std::move(events.replayed),
                                                imbalance));
}

}  // namespace tessera
