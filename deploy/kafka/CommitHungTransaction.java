import java.io.FileInputStream;
import java.io.InputStream;
import java.lang.reflect.Method;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.KafkaAdminClient;
import org.apache.kafka.clients.admin.ProducerState;
import org.apache.kafka.clients.admin.internals.AbortTransactionHandler;
import org.apache.kafka.clients.admin.internals.AdminApiFuture;
import org.apache.kafka.clients.admin.internals.AdminApiHandler;
import org.apache.kafka.clients.admin.internals.PartitionLeaderCache;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.requests.WriteTxnMarkersRequest;
import org.apache.kafka.common.utils.LogContext;

/**
 * Writes the COMMIT marker that a broker has lost, so that a hung transaction ends as it was decided.
 *
 * <p>kafka-transactions.sh abort writes ABORT alone, which hides committed records. This is the same
 * request of the same client with the other result; docs/operations.md, "HungTransaction", says when
 * it is right. It needs the jars of a Kafka 4 and a JDK 17, and the permission ClusterAction:
 *
 * <pre>
 * java -cp 'KAFKA/libs/*' CommitHungTransaction.java --bootstrap-server B [--command-config FILE]
 *     --topic T --partition P --start-offset N
 * </pre>
 */
public final class CommitHungTransaction {
    private static final List<String> NAMES =
            List.of("--bootstrap-server", "--command-config", "--topic", "--partition", "--start-offset");

    private CommitHungTransaction() {}

    public static void main(String[] arguments) throws Exception {
        Map<String, String> given = new HashMap<>();
        for (int at = 0; at + 1 < arguments.length; at += 2) {
            given.put(arguments[at], arguments[at + 1]);
        }
        if (!NAMES.containsAll(given.keySet()) || given.size() * 2 != arguments.length
                || !given.keySet().containsAll(Set.of(NAMES.get(0), NAMES.get(2), NAMES.get(3), NAMES.get(4)))) {
            System.err.println("needed: " + NAMES + " (--command-config is optional), each with a value");
            System.exit(2);
        }
        Properties properties = new Properties();
        if (given.containsKey("--command-config")) {
            try (InputStream file = new FileInputStream(given.get("--command-config"))) {
                properties.load(file);
            }
        }
        properties.put("bootstrap.servers", given.get("--bootstrap-server"));
        TopicPartition partition =
                new TopicPartition(given.get("--topic"), Integer.parseInt(given.get("--partition")));
        long offset = Long.parseLong(given.get("--start-offset"));
        try (Admin admin = Admin.create(properties)) {
            ProducerState producer = producerOf(admin, partition, offset);
            if (producer == null) {
                System.err.println("no open transaction of " + partition + " begins at offset " + offset);
                System.exit(1);
            }
            commit((KafkaAdminClient) admin, new AbortTransactionSpec(
                    partition,
                    producer.producerId(),
                    (short) producer.producerEpoch(),
                    producer.coordinatorEpoch().orElse(0)));
            System.out.println("committed: " + partition + " from offset " + offset + ", producer "
                    + producer.producerId() + ", epoch " + producer.producerEpoch());
        }
    }

    private static ProducerState producerOf(Admin admin, TopicPartition partition, long offset)
            throws Exception {
        for (ProducerState each :
                admin.describeProducers(Set.of(partition)).partitionResult(partition).get().activeProducers()) {
            if (each.currentTransactionStartOffset().orElse(-1) == offset) {
                return each;
            }
        }
        return null;
    }

    /** The client has a method for ABORT alone; it sends what a handler builds, so that is replaced. */
    private static void commit(KafkaAdminClient admin, AbortTransactionSpec transaction) throws Exception {
        AbortTransactionHandler handler = new AbortTransactionHandler(transaction, new LogContext()) {
            @Override
            public WriteTxnMarkersRequest.Builder buildBatchedRequest(int broker, Set<TopicPartition> all) {
                WriteTxnMarkersRequest.Builder request = super.buildBatchedRequest(broker, all);
                request.data.markers().forEach(marker -> marker.setTransactionResult(true));
                return request;
            }
        };
        var future = AbortTransactionHandler.newFuture(
                Set.of(transaction.topicPartition()), new PartitionLeaderCache());
        Method send = KafkaAdminClient.class.getDeclaredMethod(
                "invokeDriver", AdminApiHandler.class, AdminApiFuture.class, Integer.class);
        send.setAccessible(true);
        send.invoke(admin, handler, future, null);
        future.all().get(transaction.topicPartition()).get();
    }
}
