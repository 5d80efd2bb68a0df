"""Texts of the kinds that memory is about, for what counts or cuts texts: they change with no other file."""

PROSE = """
The night shift found the warehouse robots standing still at the loading docks. Nobody had touched the controller since
Friday; its clock, however, was eleven minutes behind, and every badge that was scanned looked as if it came from the
future. Maria restarted the time service, watched the first three robots move again, and wrote down what she had done.

"Why does it drift at all?" asked the supplier on the phone. There were two explanations: either the battery on the
board was empty, or somebody had blocked port 123 when the firewall was replaced last month. The second was easier to
check. It turned out to be both (the battery had been dead for about a year), so they ordered twelve new ones, opened
the port, and added a warning that rings as soon as a clock is more than five seconds off.

- Before you restart a controller, note the firmware's version: 4.2 forgets its routes, 4.3 and later keep them.
- Robots which stand on a ramp have to be pushed by hand. Don't try to drive them; it isn't worth the broken gear.
- If less than 80 % of the fleet answers within ten minutes, call the on-call engineer rather than trying once more.

## What we would do differently

We'd look at clocks first. In retrospect the logs said so all along: "certificate not yet valid" was printed 3,417 times
between 22:40 and 23:05, but the dashboard only counts errors by service and so none of us noticed a pattern. We have
since changed the dashboard; its first row now shows how far each machine's time is from that of the server room. A
colleague suggested buying a GPS receiver as well. That may be overkill for one building, yet at $240 it costs less than
a single hour of standing still. The decision is postponed until the budget of the next quarter is known, and until then
the weekly check (see the list above) has to do. Thanks to everybody who stayed longer that night!
"""

CODE = '''
from collections import defaultdict
from dataclasses import dataclass, field

MAX_RETRIES = 5


@dataclass(frozen=True)
class Shipment:
    """What leaves the warehouse as one."""

    order_id: str
    items: list[str] = field(default_factory=list)
    weight_kg: float = 0.0

    def is_heavy(self) -> bool:
        return self.weight_kg > 31.5 or len(self.items) >= 40


def by_destination(shipments: list[Shipment], routes: dict[str, str]) -> dict[str, list[Shipment]]:
    found: dict[str, list[Shipment]] = defaultdict(list)
    for shipment in sorted(shipments, key=lambda one: (one.weight_kg, one.order_id)):
        destination = routes.get(shipment.order_id)
        if destination is None:
            raise KeyError(f"no route for {shipment.order_id!r}")
        found[destination].append(shipment)
    return dict(found)


async def deliver(client, shipment, *, timeout=30):
    for attempt in range(1, MAX_RETRIES + 1):
        try:
            response = await client.post("/v2/shipments", json={"id": shipment.order_id}, timeout=timeout)
            response.raise_for_status()
        except TimeoutError as error:
            logger.warning("attempt %d of %d failed: %s", attempt, MAX_RETRIES, error)
            await asyncio.sleep(2 ** attempt / 10)
        else:
            return response.json()["tracking_number"]
    return None

export function render(table, rows, { sort = "name", descending = false } = {}) {
  const order = [...rows].sort((a, b) => (descending ? -1 : 1) * String(a[sort]).localeCompare(String(b[sort])));
  table.replaceChildren(...order.map(row => {
    const tr = document.createElement("tr");
    tr.className = row.late ? "late" : "on-time";
    tr.innerHTML = `<td>${escape(row.name)}</td><td>${row.count.toLocaleString()}</td>`;
    return tr;
  }));
  return order.length > 0;
}

SELECT w.name, COUNT(*) AS shipments, SUM(s.weight_kg) AS total_weight
  FROM shipments AS s
  JOIN warehouses AS w ON w.id = s.warehouse_id
 WHERE s.created_at >= NOW() - INTERVAL '7 days' AND s.status <> 'cancelled'
 GROUP BY w.name
HAVING COUNT(*) > 10
 ORDER BY total_weight DESC;

services:
  tracker:
    image: registry.example.com/warehouse/tracker:2.14.1
    environment:
      DATABASE_URL: postgres://tracker@db:5432/warehouse
      LOG_LEVEL: info
    ports: ["8080:8080"]
    healthcheck:
      test: ["CMD", "curl", "--fail", "http://localhost:8080/healthz"]
      interval: 10s

deploy: build  ## roll the new image out, one node after another
	@kubectl set image deployment/tracker tracker=$(REGISTRY)/tracker:$(VERSION) --record
	@kubectl rollout status deployment/tracker --timeout=120s || { echo "rolled back" >&2; exit 1; }

func (p *Pool) Get(ctx context.Context) (*Conn, error) {
	select {
	case c := <-p.idle:
		return c, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("pool: no connection in time: %w", ctx.Err())
	}
}
'''
