import java.io.File;
import java.net.URI;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.hdfs.MiniDFSCluster;

/**
 * An HDFS of one name node and one data node in one process. The argument is the folder of its
 * data. Prints the URL of its files, and ends when its input ends.
 */
class MiniHdfs {
    public static void main(String[] args) throws Exception {
        MiniDFSCluster cluster =
            new MiniDFSCluster.Builder(new Configuration(), new File(args[0])).numDataNodes(1).build();
        cluster.waitActive();
        System.out.println("webhdfs://127.0.0.1:" + URI.create(cluster.getHttpUri(0)).getPort());
        while (System.in.read() != -1) {
            // nobody writes
        }
        cluster.shutdown();
    }
}
